//! What the client is told in the end.

use bstr::BString;
use gix_hash::ObjectId;

use super::{PacketWriter, WireResult, commands::Request};

/// What became of one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    /// Done, or nothing to do. With the value that it had, and whether the client should call that forced.
    Ok { old: Option<ObjectId>, forced: bool },
    /// Not done, for this reason.
    No(String),
}

/// What became of a push.
#[derive(Debug)]
pub(super) struct Report {
    /// Why the pack was not taken.
    pub unpack: Option<String>,
    /// One for each command, in their order.
    pub statuses: Vec<Status>,
    /// For the user, a line each.
    pub notes: Vec<String>,
}

impl Report {
    /// Returns the report of a push of which nothing was done.
    pub fn failed(request: &Request, why: impl Into<String>) -> Report {
        Report {
            unpack: Some(one_line(&why.into())),
            statuses: vec![Status::No("unpacker error".into()); request.commands.len()],
            notes: vec![],
        }
    }

    /// Returns the report in packets.
    ///
    /// # Errors
    /// Fails where a line is too long.
    pub fn encode(&self, request: &Request) -> WireResult<Vec<u8>> {
        let mut writer = PacketWriter::new(Vec::new());
        writer.line(format!("unpack {}", self.unpack.as_deref().unwrap_or("ok")))?;
        for (command, status) in request.commands.iter().zip(&self.statuses) {
            let line = |word: &str, rest: &str| -> BString {
                [word.as_bytes(), &command.name, rest.as_bytes()].concat().into()
            };
            match status {
                Status::No(why) => writer.line(line("ng ", &format!(" {}", one_line(why))))?,
                Status::Ok { old, forced } => {
                    writer.line(line("ok ", ""))?;
                    if request.wants_options() && *forced {
                        if let Some(old) = old {
                            writer.line(format!("option old-oid {old}"))?;
                        }
                        writer.line("option forced-update")?;
                    }
                }
            }
        }
        writer.end()?;
        Ok(std::mem::take(writer.get_mut()))
    }
}

/// Keeps a message from being taken for further lines.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}
