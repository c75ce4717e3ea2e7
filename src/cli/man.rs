//! `znippy man`: the manual pages, made from the definitions that `--help` shows.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::CommandFactory;

use super::{Cli, Done, exit::Exit, output::Output};

/// Write the manual pages into a directory
///
/// Writes znippy.1, a page for each verb, and git-remote-znippy.1 for addresses and settings. `cargo install` does not install manual pages; this does.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  znippy man ~/.local/share/man/man1 && man znippy")]
pub struct Args {
    /// Where to write; created where it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes all pages.
pub fn run(args: &Args, output: &mut Output) -> Done {
    let show = args.directory.display();
    fs::create_dir_all(&args.directory).with_context(|| format!("{show}: cannot create the directory"))?;
    let pages = pages();
    for (name, page) in &pages {
        let path = args.directory.join(name);
        fs::write(&path, page).with_context(|| format!("{}: cannot write", path.display()))?;
    }
    output.note(&format!("wrote {} pages to {show}", pages.len()));
    Ok(Exit::Done)
}

/// Returns the file name and the text of each page.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(&root, "znippy", &mut pages);
    pages.push((
        "git-remote-znippy.1".into(),
        include_bytes!("../../man/git-remote-znippy.1").to_vec(),
    ));
    pages
}

/// Adds the page of `command`, which is called as `name`, and those of its verbs.
fn add(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let title = name.replace(' ', "-");
    // A page's date would make it differ from day to day; its source is the program.
    let page = clap_mangen::Man::new(command.clone())
        .title(&title)
        .date("")
        .source("znippy")
        .manual("znippy");
    let mut text = Vec::new();
    let rendered = page
        .render_title(&mut text)
        .and_then(|()| page.render_name_section(&mut text))
        .and_then(|()| page.render_synopsis_section(&mut text))
        .and_then(|()| page.render_description_section(&mut text))
        .and_then(|()| page.render_options_section(&mut text))
        .and_then(|()| {
            if command.has_subcommands() {
                page.render_subcommands_section(&mut text)
            } else {
                Ok(())
            }
        });
    rendered.expect("writing to memory");
    let closing = command.get_after_long_help().or_else(|| command.get_after_help());
    text.extend(
        closing
            .map(|closing| sections(&closing.to_string()))
            .unwrap_or_default()
            .into_bytes(),
    );
    pages.push((format!("{title}.1"), text));
    for verb in command.get_subcommands() {
        add(verb, &format!("{name} {}", verb.get_name()), pages);
    }
}

/// Returns the end of a help text as roff: a line at the margin that ends in a colon is a heading, indented lines are
/// kept as they are, and the rest is filled.
fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut verbatim = false;
    for line in help.lines() {
        let indented = line.starts_with("  ");
        if indented != verbatim && !line.is_empty() {
            roff += if indented { ".nf\n" } else { ".fi\n" };
            verbatim = indented;
        }
        match line.strip_suffix(':').filter(|_| !indented) {
            Some(heading) => roff += &format!(".SH {}\n", escaped(&heading.to_uppercase())),
            None if line.is_empty() => roff += ".PP\n",
            None => roff += &format!("{}\n", escaped(line)),
        }
    }
    roff + if verbatim { ".fi\n" } else { "" }
}

/// Returns `line` so that roff shows it as it is.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn the_pages_in_man_are_those_of_this_program() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
        let hint = "regenerate with: cargo run --release --bin znippy -- man man";
        let mut expected = BTreeSet::new();
        for (name, page) in super::pages() {
            let found = fs::read(directory.join(&name)).unwrap_or_default();
            let page = String::from_utf8(page).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&found),
                page,
                "man/{name} is not up to date; {hint}"
            );
            expected.insert(name);
        }
        for entry in fs::read_dir(&directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".1") {
                assert!(expected.contains(&name), "man/{name} belongs to no verb; delete it");
            }
        }
    }
}
