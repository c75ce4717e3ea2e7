//! An sshd of our own on the loopback.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::Sandbox;

/// A sandbox with an sshd of its own, which ends with it.
pub struct Server {
    pub sandbox: Sandbox,
    daemon: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Starts a server whose key `open` may run everything, `shell` archives below `srv` only, and `reader` only fetch from there.
///
/// # Errors
/// Says why there can be none here.
pub fn server() -> Result<Server, String> {
    let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"]
        .into_iter()
        .find(|path| fs::exists(path).unwrap_or(false))
        .ok_or("there is no sshd (Debian: openssh-server)")?;
    let s = Sandbox::new();
    let dir = s.path("ssh");
    fs::create_dir(&dir).unwrap();
    fs::create_dir(s.path("srv")).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    for key in ["host", "open", "shell", "reader"] {
        let made = s.sh("ssh", &format!("ssh-keygen -q -t ed25519 -N '' -f {key}"));
        if made.code != 0 {
            return Err("ssh-keygen does not work (Debian: openssh-client)".into());
        }
    }
    let public = |key: &str| fs::read_to_string(dir.join(format!("{key}.pub"))).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", s.path(".bin").display());
    let shell = format!(
        "{} shell --root {}",
        env!("CARGO_BIN_EXE_znippy"),
        s.path("srv").display()
    );
    let keys = format!(
        "{}restrict,command=\"{shell}\" {}restrict,command=\"{shell} --read-only\" {}",
        public("open"),
        public("shell"),
        public("reader")
    );
    fs::write(dir.join("authorized_keys"), keys).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = dir.display();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nAcceptEnv GIT_PROTOCOL\n\
         Subsystem sftp internal-sftp\nSetEnv PATH={path} TMPDIR={}\n",
        s.path(".tmp").display()
    );
    fs::write(dir.join("config"), config).unwrap();
    // sshd wants its directory for privilege separation; only root needs one.
    let _ = fs::create_dir_all("/run/sshd");
    let daemon = Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(dir.join("config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(dir.join("log")).unwrap())
        .spawn();
    let daemon = daemon.map_err(|error| format!("sshd cannot be run: {error}"))?;
    let server = Server { sandbox: s, daemon };
    for key in ["open", "shell", "reader"] {
        let options =
            "-F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
        let script = format!("#!/bin/sh\nexec ssh {options} -o IdentitiesOnly=yes -p {port} -i {at}/{key} \"$@\"\n");
        let file = dir.join(format!("with-{key}"));
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for _ in 0..100 {
        if server.sandbox.sh("ssh", "./with-open 127.0.0.1 true").code == 0 {
            return Ok(server);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
    Err(format!(
        "sshd lets nobody in: {}",
        log.lines().last().unwrap_or_default()
    ))
}
