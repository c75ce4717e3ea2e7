//! An archive on a misbehaving disk, and everything that is done with archives.

use std::{
    cell::RefCell,
    fs,
    sync::{Arc, Mutex},
};

use crate::{
    common::{Ran, Sandbox, not_run},
    disk::{Disk, Manners, Mounted},
};

/// What another machine does.
pub type Act = Box<dyn FnOnce() + Send>;

/// A disk that this machine sees at `net` and another one at `far`, and that is `back` behind that; a repository `work` here and
/// one `theirs` there; pushes that were acknowledged.
pub struct Stage {
    // Unmounted before the directories go.
    _here: Mounted,
    _far: Mounted,
    pub disk: Arc<Disk>,
    pub s: Sandbox,
    acknowledged: RefCell<Vec<(String, String)>>,
    commits: RefCell<usize>,
}

impl Stage {
    /// Mounts a disk on which locks are by file; `None` where that cannot be done here.
    pub fn new(test: &str) -> Option<Stage> {
        let s = Sandbox::new();
        for name in ["back", "net", "far"] {
            fs::create_dir(s.path(name)).unwrap();
        }
        let disk = Disk::new(s.path("back"));
        let mounted = disk
            .mount(&s.path("net"))
            .and_then(|here| Ok((here, disk.mount(&s.path("far"))?)));
        let (here, far) = match mounted {
            Ok(mounted) => mounted,
            Err(error) => {
                not_run(
                    test,
                    &format!("no FUSE here: {error} (/dev/fuse, and root or Debian: fuse3)"),
                );
                return None;
            }
        };
        s.ok(
            "",
            "git config --global znippy.lock file && git config --global znippy.lockTimeout 1 && git init -q work",
        );
        s.ok("work", "commit base && git branch base && cp -r . ../theirs");
        Some(Stage {
            _here: here,
            _far: far,
            disk,
            s,
            acknowledged: RefCell::default(),
            commits: RefCell::default(),
        })
    }

    /// Chooses how writers keep each other away.
    pub fn lock_by(&self, mode: &str) {
        self.s.ok("", &format!("git config --global znippy.lock {mode}"));
    }

    pub fn behave(&self, manners: Manners) {
        self.disk.behave(manners);
    }

    /// Pushes a new commit to main and to a branch of its own, through `at`. What is acknowledged is to stay.
    pub fn push(&self, at: &str) -> Ran {
        *self.commits.borrow_mut() += 1;
        let branch = format!("c{}", self.commits.borrow());
        self.s.ok("work", &format!("commit {branch}"));
        let ran = self.s.sh(
            "work",
            &format!("git push -q --atomic \"znippy::$A/{at}/app\" main main:{branch}"),
        );
        if ran.code == 0 {
            let tip = self.s.ok("work", "git rev-parse main").text().to_owned();
            self.acknowledged
                .borrow_mut()
                .push((format!("refs/heads/{branch}"), tip));
        }
        ran
    }

    /// Returns a push of a branch by another machine, and where its exit code is noted.
    pub fn push_elsewhere(&self, branch: &str) -> (Act, Arc<Mutex<Option<i32>>>) {
        self.s.ok(
            "theirs",
            &format!("git checkout -q -B {branch} base && commit {branch}"),
        );
        let tip = self
            .s
            .ok("theirs", &format!("git rev-parse {branch}"))
            .text()
            .to_owned();
        self.acknowledged
            .borrow_mut()
            .push((format!("refs/heads/{branch}"), tip));
        self.elsewhere(&format!("git -C theirs push -q \"znippy::$A/far/app\" {branch}"))
    }

    /// Returns something that another machine does, and where its exit code is noted.
    pub fn elsewhere(&self, line: &str) -> (Act, Arc<Mutex<Option<i32>>>) {
        let mut command = self.s.command("", "sh");
        command.args(["-c", line]);
        let code = Arc::new(Mutex::new(None));
        let noted = code.clone();
        let act = move || {
            let output = command.output().unwrap();
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            *noted.lock().unwrap() = output.status.code();
        };
        (Box::new(act), code)
    }

    /// Clones through `at`, and compares that with what is there.
    pub fn clone(&self, at: &str) -> Ran {
        let line = format!(
            "rm -rf .tmp/copy && git clone -q --mirror \"znippy::$A/{at}/app\" .tmp/copy && git -C .tmp/copy fsck --full"
        );
        let ran = self.s.sh("", &line);
        if ran.code == 0 {
            let refs = self.s.ok(".tmp/copy", "git show-ref").stdout;
            for (branch, tip) in self.acknowledged.borrow().iter() {
                assert!(
                    refs.contains(&format!("{tip} {branch}\n")),
                    "{branch} is not in\n{refs}"
                );
            }
        }
        ran
    }

    /// Fetches through `at` what came since the base.
    pub fn fetch(&self, at: &str) -> Ran {
        self.s.ok(
            "",
            "rm -rf .tmp/old && git clone -q --no-local --single-branch -b base work .tmp/old",
        );
        self.s.sh(
            "",
            &format!(
                "git -C .tmp/old fetch -q \"znippy::$A/{at}/app\" main:refs/heads/got && git -C .tmp/old fsck --full"
            ),
        )
    }

    pub fn znippy(&self, line: &str) -> Ran {
        self.s.sh("", &format!("znippy {line}"))
    }

    /// Does everything that is done with archives, in this order; what is named in `failing` fails with a message that holds what
    /// stands there, and the rest succeeds. Then the disk behaves, and nothing is lost.
    pub fn all(&self, manners: &Manners, failing: &[(&str, &str)]) {
        self.steps(manners, failing);
        self.settle();
    }

    pub fn steps(&self, manners: &Manners, failing: &[(&str, &str)]) {
        let steps: [(&str, &dyn Fn() -> Ran); 9] = [
            ("first push", &|| self.push("net")),
            ("push", &|| self.push("net")),
            ("clone", &|| self.clone("net")),
            ("fetch", &|| self.fetch("net")),
            ("index", &|| self.znippy("index --rebuild net/app")),
            ("gc", &|| self.znippy("gc --force net/app")),
            ("push after gc", &|| self.push("net")),
            ("clone after gc", &|| self.clone("net")),
            ("verify", &|| self.znippy("verify --full net/app")),
        ];
        for (name, step) in steps {
            self.behave(manners.clone());
            let ran = step();
            let expected = failing.iter().find(|(failing, _)| *failing == name);
            check(&format!("{name} with {manners:?}"), &ran, expected.map(|(_, why)| *why));
            if name == "first push" && ran.code != 0 {
                // The rest is tried on an archive that was made while the disk behaved.
                self.behave(Manners::default());
                assert!(
                    self.s.ok("", "ls -A back").text().is_empty(),
                    "left behind: {}",
                    ran.stderr
                );
                assert_eq!(self.push("net").code, 0);
            }
            let beside = self.s.ok("", "ls -A back").stdout;
            assert_eq!(beside, "app.znippy\n", "left behind by {name} with {manners:?}");
        }
    }

    /// The archive is gone, and with it what was pushed.
    pub fn forget(&self) {
        self.acknowledged.borrow_mut().clear();
    }

    /// The disk behaves from now on: every push that was acknowledged is there, and the next ones work.
    pub fn settle(&self) {
        self.behave(Manners::default());
        check("push", &self.push("net"), None);
        check("gc", &self.znippy("gc --force net/app"), None);
        check("push", &self.push("net"), None);
        check("verify", &self.znippy("verify --full back/app"), None);
        check("clone", &self.clone("back"), None);
    }
}

/// Checks what came of a command: success, or an error that names the archive and holds `why`.
#[track_caller]
pub fn check(context: &str, ran: &Ran, why: Option<&str>) {
    assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
    match why {
        None => assert_eq!(ran.code, 0, "{context}: {}", ran.stderr),
        Some(why) => {
            assert!(
                ran.code > 0 && ran.code <= 128,
                "{context} should have failed: {}",
                ran.stderr
            );
            let told = ran.stderr.contains("app.znippy") && ran.stderr.contains(why);
            assert!(told, "{context} should say '{why}': {}", ran.stderr);
        }
    }
}
