//! `znippy info`: the figures of archives.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::HumanBytes;
use serde::Serialize;
use znippy::{archive::Info, policy::Policy};

use super::{
    Done,
    each::each,
    escape,
    exit::Exit,
    open,
    output::{Output, count},
};

/// Show what archives hold: format, identity, refs, packs, objects, bytes, settings
///
/// Reads the references and the newest figures of each archive, not its objects, takes no lock and writes nothing. An archive that cannot be read does not stop the others; the exit code is that of the worst.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  znippy info app
  znippy info --json /mnt/nas/*.znippy | jq -r 'select(.error) | .path'      the broken ones

JSON keys: path, format_version, object_format, uuid, generation, sequence, commit_id, head (null if none), refs,
packs, objects, unresolved_objects, unproven_packs, damaged_objects, file_bytes, pack_bytes, index_bytes, dead_bytes, settings (a list of {key, value}), warnings (a list of texts).
For an archive that cannot be read: path, error, exit_code.")]
pub struct Args {
    /// One JSON object a line for each archive
    #[arg(long)]
    json: bool,

    /// The archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// The JSON record of an archive that could be read.
#[derive(Serialize)]
struct Record<'a> {
    path: &'a str,
    format_version: u32,
    object_format: &'a str,
    uuid: &'a str,
    generation: u64,
    sequence: u64,
    commit_id: &'a str,
    head: Option<&'a str>,
    refs: u64,
    packs: u64,
    objects: u64,
    unresolved_objects: u64,
    unproven_packs: u64,
    damaged_objects: u64,
    file_bytes: u64,
    pack_bytes: u64,
    index_bytes: u64,
    dead_bytes: u64,
    settings: Vec<Setting>,
    warnings: &'a [String],
}

/// A setting of an archive. A list has several of one key.
#[derive(Serialize)]
struct Setting {
    key: String,
    value: String,
}

/// Shows each archive in turn.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let mut is_first = true;
    each(&args.paths, args.json, output, |path, output| {
        if !args.json && !std::mem::take(&mut is_first) {
            output.line("")?;
        }
        let shown = path.to_string_lossy();
        let read = read(path);
        if read.is_err() && !args.json {
            let name = escape::text(path.as_os_str().as_encoded_bytes());
            output.line(format!("{name}\n  cannot be read"))?;
        }
        let (info, policy, warnings) = read?;
        for warning in &warnings {
            output.warning(&format!("{shown}: {warning}"));
        }
        match args.json {
            true => output.json(&record(&shown, &info, &policy, &warnings))?,
            false => show(path, &info, &policy, output)?,
        }
        Ok(Exit::Done)
    })
}

fn read(path: &Path) -> anyhow::Result<(Info, Policy, Vec<String>)> {
    let snapshot = open::quiet_snapshot(path)?;
    let info = snapshot
        .info()
        .with_context(|| format!("cannot count what {} holds", path.display()))?;
    Ok((info, snapshot.policy(), snapshot.warnings().to_vec()))
}

fn record<'a>(path: &'a str, info: &'a Info, policy: &Policy, warnings: &'a [String]) -> Record<'a> {
    let settings = policy.entries().map(|(key, value)| Setting {
        key: key.to_owned(),
        value: value.to_string(),
    });
    Record {
        path,
        format_version: info.format_version,
        object_format: &info.object_format,
        uuid: &info.uuid,
        generation: info.generation,
        sequence: info.sequence,
        commit_id: &info.commit_id,
        head: info.head.as_deref(),
        refs: info.refs,
        packs: info.packs,
        objects: info.objects,
        unresolved_objects: info.unresolved_objects,
        unproven_packs: info.unproven_packs,
        damaged_objects: info.damaged_objects,
        file_bytes: info.file_bytes,
        pack_bytes: info.pack_bytes,
        index_bytes: info.index_bytes,
        dead_bytes: info.dead_bytes,
        settings: settings.collect(),
        warnings,
    }
}

/// Shows one archive to a person.
fn show(path: &Path, info: &Info, policy: &Policy, output: &mut Output) -> anyhow::Result<()> {
    let bytes = |count: u64| format!("{count} ({})", HumanBytes(count));
    let objects = match info.unresolved_objects {
        0 => info.objects.to_string(),
        lag => format!("{}, of which {lag} are not indexed yet", info.objects),
    };
    let packs = match info.unproven_packs {
        0 => info.packs.to_string(),
        lag => format!(
            "{}, of which {lag} are not proven yet (`znippy index` does that)",
            info.packs
        ),
    };
    let damaged = (info.damaged_objects > 0).then(|| ("damaged", count(info.damaged_objects, "object", "objects")));
    let head = info
        .head
        .as_deref()
        .map_or("none".into(), |head| escape::text(head.as_bytes()));
    let lines = [
        (
            "format",
            format!("version {}, {} objects", info.format_version, info.object_format),
        ),
        ("uuid", info.uuid.clone()),
        ("generation", info.generation.to_string()),
        ("commits", info.sequence.to_string()),
        ("HEAD", head),
        ("refs", info.refs.to_string()),
        ("packs", packs),
        ("objects", objects),
        ("file", bytes(info.file_bytes)),
        ("  packs", bytes(info.pack_bytes)),
        ("  index", bytes(info.index_bytes)),
        ("  dead", bytes(info.dead_bytes)),
    ];
    output.line(escape::text(path.as_os_str().as_encoded_bytes()))?;
    for (label, value) in lines.into_iter().chain(damaged) {
        output.line(format!("  {label:<12}{value}"))?;
    }
    for (number, (key, value)) in policy.entries().enumerate() {
        let label = if number == 0 { "settings" } else { "" };
        let (key, value) = (escape::text(key.as_bytes()), escape::text(value));
        output.line(format!("  {label:<12}{key} = {value}"))?;
    }
    Ok(())
}
