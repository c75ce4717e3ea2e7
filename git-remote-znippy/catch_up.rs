//! After a push that was too large to be proven at once: prove it now, or have it proven in the background.

use std::{
    io::IsTerminal,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use znippy::archive::{self, WritePolicy};

use crate::{
    config::Config,
    remote::Remote,
    ui::{Progress, Voice},
};

/// Lets the archive of `remote` catch up, unless `znippy.autoIndex` is false.
///
/// In the background only where a person waits: a background process of a script would keep the disk from being unmounted,
/// or would die with the script's service.
///
/// # Errors
/// The push stands, whatever fails here.
pub fn catch_up(remote: &Remote, config: &Config, voice: Voice) -> Result<()> {
    let path = remote.path();
    let later = "run `znippy index` to prove it, so that clones need not";
    if config.bool("znippy.autoindex")? == Some(false) {
        voice.note(format_args!("the pack was stored without proof; {later}"));
        return Ok(());
    }
    if std::io::stderr().is_terminal() {
        match detach(path) {
            Ok(()) => voice.note("the pack was stored without proof, which is made up for in the background"),
            Err(error) => voice.warning(format_args!(
                "the pack was stored without proof; {later} ({})",
                znippy::error::one_line(error.as_ref())
            )),
        }
        return Ok(());
    }
    let mut progress = Progress::new(voice, "Proving what was stored", false);
    let mut on_progress = |_, (done, total)| progress.update(done, total);
    let mut policy = WritePolicy {
        lock: remote.lock_mode(config)?,
        ..WritePolicy::default()
    };
    let caught_up = archive::catch_up(path, false, &mut policy, &mut on_progress)?;
    drop(progress);
    for unsound in caught_up.iter().flat_map(|caught_up| &caught_up.unsound) {
        voice.warning(format_args!(
            "pack {} in the archive has {} damaged objects and {} that are missing; `znippy index` names them",
            unsound.pack,
            unsound.damaged.len(),
            unsound.dangling.len()
        ));
    }
    Ok(())
}

/// Returns a command that runs the program `name`, which lies beside this one.
///
/// # Errors
/// Fails where the system cannot tell where this one is.
pub fn sibling(name: &str) -> Result<Command> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(Command::new(program.with_file_name(name)))
}

/// Starts `znippy index`, which lies beside this program, in a session of its own with nothing of ours open.
fn detach(path: &Path) -> Result<()> {
    let mut command = sibling("znippy")?;
    command.args(["--quiet", "index", "--detach", "--"]).arg(path);
    // It looks whether there is a terminal, and leaves nothing open.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().context("cannot run znippy")?;
    anyhow::ensure!(status.success(), "znippy index failed ({status})");
    Ok(())
}
