//! A machine that has the disk mounted: what the kernel asks of it, and what it answers.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLock, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::disk::{Cached, Call, Disk, Locks, Manners};

/// One machine: what it has open, and under which names it knows files.
pub struct Machine {
    disk: Arc<Disk>,
    open: Mutex<HashMap<u64, Arc<File>>>,
    paths: Mutex<HashMap<u64, PathBuf>>,
}

/// Fails with an error number where there is one.
fn refuse(number: Option<i32>) -> io::Result<()> {
    number.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Machine {
    pub fn new(disk: Arc<Disk>) -> Machine {
        let root = HashMap::from([(1, PathBuf::new())]);
        Machine {
            disk,
            open: Mutex::default(),
            paths: Mutex::new(root),
        }
    }

    fn lock_paths(&self) -> MutexGuard<'_, HashMap<u64, PathBuf>> {
        self.paths.lock().unwrap()
    }

    /// Returns where a file is in the directory behind the disk.
    fn path(&self, node: INodeNo) -> io::Result<PathBuf> {
        let path = self.lock_paths().get(&node.0).cloned();
        path.map(|path| self.disk.root.join(path)).ok_or(errno(libc::ESTALE))
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    fn remember(&self, path: &Path, metadata: &Metadata) {
        let path = path.strip_prefix(&self.disk.root).unwrap().to_owned();
        self.lock_paths().insert(metadata.ino(), path);
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let file = self.open.lock().unwrap().get(&handle.0).cloned();
        let file = file.ok_or(errno(libc::EBADF))?;
        if self.disk.manners().stale && file.metadata()?.nlink() == 0 {
            return Err(errno(libc::ESTALE));
        }
        Ok(file)
    }

    fn opened(&self, file: File) -> (FileHandle, FopenFlags) {
        let mut state = self.disk.state();
        state.opened += 1;
        self.open.lock().unwrap().insert(state.opened, Arc::new(file));
        let Manners { at_most, cached, .. } = state.manners;
        let mut flags = FopenFlags::empty();
        // Else the kernel would fill up what is missing.
        flags.set(FopenFlags::FOPEN_DIRECT_IO, at_most.is_some());
        flags.set(FopenFlags::FOPEN_KEEP_CACHE, cached == Cached::Always);
        (FileHandle(state.opened), flags)
    }

    /// How long the kernel may believe a name, and how long attributes.
    fn ttls(&self) -> (Duration, Duration) {
        const LONG: Duration = Duration::from_secs(3600);
        match self.disk.manners().cached {
            Cached::Never => (Duration::ZERO, Duration::ZERO),
            Cached::UntilOpened => (Duration::ZERO, LONG),
            Cached::Always => (LONG, LONG),
        }
    }

    fn attributes(&self, metadata: &Metadata) -> FileAttr {
        let mut state = self.disk.state();
        state.seen += 1;
        let ino = match state.manners.unstable && metadata.is_file() {
            true => (1 << 32) + state.seen,
            false => metadata.ino(),
        };
        let time = |seconds: i64, nanos: i64| UNIX_EPOCH + Duration::new(seconds as u64, nanos as u32);
        FileAttr {
            ino: INodeNo(ino),
            size: metadata.len(),
            blocks: metadata.blocks(),
            atime: time(metadata.atime(), metadata.atime_nsec()),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            crtime: UNIX_EPOCH,
            kind: kind(metadata.file_type()),
            perm: (metadata.mode() & 0o7777) as u16,
            nlink: metadata.nlink() as u32,
            uid: metadata.uid(),
            gid: metadata.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Returns attributes with the number by which the kernel and this server tell files apart.
    fn node(&self, metadata: &Metadata) -> FileAttr {
        FileAttr {
            ino: INodeNo(metadata.ino()),
            ..self.attributes(metadata)
        }
    }

    fn enter(&self, metadata: &Metadata, reply: ReplyEntry) {
        let (name, attributes) = self.ttls();
        reply.entry_with_ttls(&attributes, &name, &self.node(metadata), generation(metadata));
    }

    /// Returns whether any machine has the file open: only this one can be asked.
    fn is_open(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::metadata(path) else {
            return false;
        };
        let open = self.open.lock().unwrap();
        open.values()
            .any(|file| file.metadata().is_ok_and(|open| open.ino() == metadata.ino()))
    }

    fn set(
        &self,
        node: INodeNo,
        handle: Option<FileHandle>,
        mode: Option<u32>,
        owner: (Option<u32>, Option<u32>),
        size: Option<u64>,
    ) -> io::Result<Metadata> {
        let path = self.path(node)?;
        if let Some(mode) = mode {
            refuse(self.disk.manners().chmod)?;
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        }
        if owner != (None, None) {
            std::os::unix::fs::chown(&path, owner.0, owner.1)?;
        }
        if let Some(size) = size {
            match handle {
                Some(handle) => self.file(handle)?.set_len(size)?,
                None => OpenOptions::new().write(true).open(&path)?.set_len(size)?,
            }
        }
        self.look(node, handle)
    }

    fn look(&self, node: INodeNo, handle: Option<FileHandle>) -> io::Result<Metadata> {
        if let Some(handle) = handle {
            return self.file(handle)?.metadata();
        }
        let metadata = fs::symlink_metadata(self.path(node)?)?;
        match node.0 == 1 || metadata.ino() == node.0 {
            true => Ok(metadata),
            // By now the name is another file's.
            false => Err(errno(libc::ESTALE)),
        }
    }

    fn read_at(&self, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        self.disk.called(Call::Read)?;
        let most = self.disk.manners().at_most.unwrap_or(usize::MAX);
        let (file, mut buf) = (self.file(handle)?, vec![0; most.min(size as usize)]);
        let mut filled = 0;
        while filled < buf.len() {
            match file.read_at(&mut buf[filled..], offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        buf.truncate(filled);
        Ok(buf)
    }

    fn write_at(&self, handle: FileHandle, offset: u64, data: &[u8]) -> io::Result<u32> {
        self.disk.called(Call::Write)?;
        let most = self.disk.manners().at_most.unwrap_or(usize::MAX);
        let data = &data[..most.min(data.len())];
        self.file(handle)?.write_all_at(data, offset)?;
        Ok(data.len() as u32)
    }

    fn move_name(&self, from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
        let manners = self.disk.manners();
        if !flags.is_empty() {
            refuse(manners.exclusive_rename)?;
            if fs::symlink_metadata(to).is_ok() {
                return Err(errno(libc::EEXIST));
            }
        }
        self.disk.called(Call::Rename)?;
        if self.is_open(to) {
            refuse(manners.rename_over_open)?;
        }
        let metadata = fs::symlink_metadata(from)?;
        fs::rename(from, to)?;
        self.remember(to, &metadata);
        Ok(())
    }

    /// Takes or gives back a lock on one byte of a file.
    fn set_lock(&self, node: INodeNo, handle: FileHandle, at: u64, kind: i32) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.manners.locks {
            Locks::Ignored => return Ok(()),
            Locks::Refused(number) => return Err(errno(number)),
            Locks::Kept => {}
        }
        let holder = state.locks.get(&(node.0, at)).copied();
        if kind == libc::F_UNLCK {
            if holder == Some(handle.0) {
                state.locks.remove(&(node.0, at));
            }
            return Ok(());
        }
        if holder.is_some_and(|holder| holder != handle.0) {
            return Err(errno(libc::EAGAIN));
        }
        state.locks.insert((node.0, at), handle.0);
        Ok(())
    }
}

fn kind(kind: fs::FileType) -> FileType {
    match kind {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

/// A number that no other file of the same inode number has had.
fn generation(metadata: &Metadata) -> Generation {
    let created = metadata.created().unwrap_or(UNIX_EPOCH);
    let age = created.duration_since(UNIX_EPOCH).unwrap_or_default();
    Generation(age.as_nanos() as u64)
}

fn attempt<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    call()
}

/// Answers a call with what came of it.
macro_rules! answer {
    ($reply:ident, $done:expr, $found:pat => $with:expr) => {
        match attempt(|| $done) {
            Ok($found) => $with,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

impl Filesystem for Machine {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_ATOMIC_O_TRUNC;
        config
            .add_capabilities(wanted)
            .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, {
            let path = self.child(parent, name)?;
            let metadata = fs::symlink_metadata(&path)?;
            self.remember(&path, &metadata);
            Ok(metadata)
        }, metadata => {
            self.enter(&metadata, reply);
        });
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.look(node, handle), metadata => reply.attr(&self.ttls().1, &self.attributes(&metadata)));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = self.set(node, handle, mode, (uid, gid), size);
        answer!(reply, done, metadata => reply.attr(&self.ttls().1, &self.attributes(&metadata)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, fs::remove_file(self.child(parent, name)?), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer!(
            reply,
            self.move_name(&self.child(parent, name)?, &self.child(new_parent, new_name)?, flags),
            () => reply.ok()
        );
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, {
            refuse(self.disk.manners().link)?;
            let to = self.child(parent, name)?;
            fs::hard_link(self.path(node)?, &to)?;
            fs::symlink_metadata(to)
        }, metadata => self.enter(&metadata, reply));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, {
            let mode = flags.0 & libc::O_ACCMODE;
            let file = OpenOptions::new()
                .read(mode != libc::O_WRONLY)
                .write(mode != libc::O_RDONLY)
                .truncate(flags.0 & libc::O_TRUNC != 0)
                .open(self.path(node)?)?;
            match file.metadata()?.ino() == node.0 {
                true => Ok(file),
                false => Err(errno(libc::ESTALE)),
            }
        }, file => {
            let (handle, flags) = self.opened(file);
            reply.opened(handle, flags);
        });
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        answer!(reply, {
            self.disk.called(Call::Create)?;
            let path = self.child(parent, name)?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            match flags & libc::O_EXCL {
                0 => options.create(true).truncate(flags & libc::O_TRUNC != 0),
                _ => options.create_new(true),
            };
            let file = options.open(&path)?;
            file.set_permissions(Permissions::from_mode(mode & !umask & 0o7777))?;
            let metadata = file.metadata()?;
            self.remember(&path, &metadata);
            Ok((file, metadata))
        }, (file, metadata) => {
            let (handle, flags) = self.opened(file);
            reply.created(&self.ttls().0, &self.node(&metadata), generation(&metadata), handle, flags);
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_at(handle, offset, size), data => reply.data(&data));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.write_at(handle, offset, data), written => reply.written(written));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.lock().unwrap().remove(&handle.0);
        self.disk.state().locks.retain(|_, holder| *holder != handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, {
            self.disk.called(Call::Sync)?;
            self.file(handle)?.sync_all()
        }, () => reply.ok());
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, refuse(self.disk.manners().directory_sync), () => reply.ok());
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        answer!(reply, fs::read_dir(self.path(node)?)?.collect::<io::Result<Vec<_>>>(), entries => {
            for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
                let kind = entry.file_type().map_or(FileType::RegularFile, kind);
                if reply.add(INodeNo(entry.ino()), at as u64 + 1, kind, entry.file_name()) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn getlk(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        start: u64,
        end: u64,
        _: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        let state = self.disk.state();
        if let Locks::Refused(number) = state.manners.locks {
            return reply.error(Errno::from_i32(number));
        }
        let holder = state.locks.get(&(node.0, start));
        let is_held = holder.is_some_and(|holder| *holder != handle.0);
        let kind = if is_held { libc::F_WRLCK } else { libc::F_UNLCK };
        reply.locked(start, end, kind, 0);
    }

    fn setlk(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        start: u64,
        _: u64,
        kind: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.set_lock(node, handle, start, kind), () => reply.ok());
    }
}
