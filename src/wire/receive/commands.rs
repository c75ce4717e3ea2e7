//! What the client asks for.

use std::io::BufRead;

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use super::{Format, Packet, PacketReader, WireError, WireResult};
use crate::wire::{Capabilities, packet::without_line_end};

/// The most references of one push: more is a mistake or an attack.
const MOST: usize = 4_000_000;
/// The most push options.
const MOST_OPTIONS: usize = 1024;

/// One reference of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub name: BString,
    /// The value that the client saw; `None` = there was no such reference.
    pub old: Option<ObjectId>,
    /// The new value; `None` deletes.
    pub new: Option<ObjectId>,
}

/// A push.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub commands: Vec<Command>,
    /// Commits that the client has without their parents.
    pub shallow: Vec<ObjectId>,
    pub push_options: Vec<BString>,
    capabilities: Capabilities,
}

impl Request {
    /// Reads everything before the pack. `None` where the client has nothing to push.
    ///
    /// # Errors
    /// Fails where the stream does, and for what cannot be served.
    pub fn read(packets: &mut PacketReader<&mut dyn BufRead>, format: Format) -> WireResult<Option<Request>> {
        let mut request = Request::default();
        let mut first = true;
        loop {
            let line = match packets.read()? {
                // A client that looked and found everything up to date may just go.
                None if first => return Ok(None),
                None => return Err(WireError::HungUp),
                Some(Packet::Data(data)) => without_line_end(data),
                Some(_) => break,
            };
            if let Some(hex) = line.strip_prefix(b"shallow ") {
                request.shallow.push(object_id(hex, format)?);
                continue;
            }
            if line.starts_with(b"push-cert") {
                return Err(WireError::refused("signed pushes are not supported by znippy archives"));
            }
            let line = match std::mem::take(&mut first) {
                true => {
                    let (line, capabilities) = Capabilities::split_line(line);
                    request.capabilities = capabilities;
                    line
                }
                false => line,
            };
            request.commands.push(command(line, format)?);
            if request.commands.len() > MOST {
                return Err(WireError::refused(format!("more than {MOST} references in one push")));
            }
        }
        if request.commands.is_empty() {
            return Ok(None);
        }
        let theirs = request
            .capabilities
            .value("object-format")
            .map_or("sha1".into(), BString::from);
        if theirs != format.to_string() {
            let why = format!("the archive holds {format} objects, the repository uses {theirs}; they cannot be mixed");
            return Err(WireError::refused(why));
        }
        if request.capabilities.has("push-options") {
            request.push_options = packets.lines(MOST_OPTIONS)?;
        }
        Ok(Some(request))
    }

    /// Returns whether a pack follows: not where references are only deleted.
    pub fn has_pack(&self) -> bool {
        self.commands.iter().any(|command| command.new.is_some())
    }

    pub fn is_atomic(&self) -> bool {
        self.capabilities.has("atomic")
    }

    /// Returns whether the client wants to know what became of its push.
    pub fn wants_report(&self) -> bool {
        self.capabilities.has("report-status") || self.wants_options()
    }

    /// Returns whether a line of the report may be followed by details.
    pub fn wants_options(&self) -> bool {
        self.capabilities.has("report-status-v2")
    }

    pub fn has_bands(&self) -> bool {
        self.capabilities.has("side-band-64k")
    }
}

/// `<old> <new> <name>`.
fn command(line: &[u8], format: Format) -> WireResult<Command> {
    let mut fields = line.splitn(3, |byte| *byte == b' ');
    let mut field = || {
        fields.next().ok_or_else(|| {
            WireError::refused(format!(
                "protocol error: expected old/new/ref, got '{}'",
                line.as_bstr()
            ))
        })
    };
    let (old, new, name) = (object_id(field()?, format)?, object_id(field()?, format)?, field()?);
    let value = |id: ObjectId| (!id.is_null()).then_some(id);
    Ok(Command {
        name: name.into(),
        old: value(old),
        new: value(new),
    })
}

fn object_id(hex: &[u8], format: Format) -> WireResult<ObjectId> {
    ObjectId::from_hex(hex)
        .ok()
        .filter(|id| id.kind() == format)
        .ok_or_else(|| WireError::refused(format!("protocol error: '{}' is no {format} object id", hex.as_bstr())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &str) -> WireResult<Option<Request>> {
        let mut input = stream.as_bytes();
        let mut packets = PacketReader::new(&mut input as &mut dyn BufRead);
        Request::read(&mut packets, Format::Sha1)
    }

    fn packet(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    #[test]
    fn commands_shallow_lines_and_options() {
        let (a, b, zero) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let stream = [
            packet(&format!("shallow {b}\n")),
            packet(&format!(
                "{zero} {a} refs/heads/x y\0 report-status push-options object-format=sha1"
            )),
            packet(&format!("{a} {zero} refs/heads/gone\n")),
            "0000".into(),
            packet("ci.skip"),
            "0000PACK".into(),
        ];
        let request = read(&stream.concat()).unwrap().unwrap();
        assert_eq!(request.commands.len(), 2);
        assert_eq!(request.commands[0].name, "refs/heads/x y");
        assert_eq!((request.commands[0].old, request.commands[1].new), (None, None));
        assert_eq!(request.shallow.len(), 1);
        assert_eq!(request.push_options, ["ci.skip"]);
        assert!(request.wants_report() && !request.is_atomic() && request.has_pack());
    }

    #[test]
    fn what_is_no_push_is_refused() {
        let a = "a".repeat(40);
        assert!(read("").unwrap().is_none());
        assert!(read("0000").unwrap().is_none());
        for line in [
            format!("{a} {a}"),
            format!("{a} nonsense refs/heads/x"),
            format!("{a} {} refs/heads/x", "b".repeat(64)),
            format!("{a} {a} refs/heads/x\0object-format=sha256"),
            "push-cert\0".to_owned(),
        ] {
            let refused = read(&format!("{}0000", packet(&line)));
            assert!(matches!(refused, Err(WireError::Refused(_))), "{line}");
        }
        assert!(
            read(&packet(&format!("{a} {a} refs/heads/x")))
                .unwrap_err()
                .is_hang_up()
        );
    }
}
