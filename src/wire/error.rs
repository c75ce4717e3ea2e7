//! What can go wrong in a conversation.

use std::io;

/// The result of a step of a conversation.
pub type WireResult<T> = std::result::Result<T, WireError>;

/// An error of a conversation.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side went away. Nobody is left to tell.
    #[error("the client went away")]
    HungUp,
    /// The other side cannot be read or written.
    #[error("cannot talk to the client: {0}")]
    Io(#[source] io::Error),
    /// The other side said something that the protocol has no room for, or asked for what it cannot have. It is to be told.
    #[error("{0}")]
    Refused(String),
    /// The archive cannot give what was asked for.
    #[error(transparent)]
    Archive(crate::Error),
}

impl WireError {
    /// Returns the error that the client is refused something.
    pub fn refused(why: impl Into<String>) -> WireError {
        WireError::Refused(why.into())
    }

    /// Returns whether the other side simply went away.
    pub fn is_hang_up(&self) -> bool {
        matches!(self, WireError::HungUp)
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                WireError::HungUp
            }
            _ => WireError::Io(error),
        }
    }
}

impl From<crate::Error> for WireError {
    fn from(error: crate::Error) -> Self {
        match error {
            // Of all that is written here, only the client can break off.
            crate::Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => WireError::HungUp,
            error => WireError::Archive(error),
        }
    }
}
