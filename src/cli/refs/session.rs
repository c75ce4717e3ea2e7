//! The states that a series of requests goes through, as in `git update-ref --stdin`.

use super::grammar::Request;
use crate::cli::exit;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No transaction was asked for: the end of the input commits.
    Open,
    /// After `start`: only `commit` commits.
    Started,
    /// After `prepare`: only `commit` and `abort` may follow.
    Prepared,
    /// After `commit` or `abort`: only `start` may follow.
    Closed,
}

impl State {
    /// Returns the state after `request`.
    ///
    /// # Errors
    /// Fails where the request is not allowed now.
    pub fn after(self, request: &Request) -> anyhow::Result<State> {
        let wrong = |why: &str| Err(exit::usage(why));
        match (self, request) {
            (State::Closed, Request::Start) => Ok(State::Started),
            (State::Closed, _) => wrong("the transaction is closed; only 'start' may follow"),
            (_, Request::Commit | Request::Abort) => Ok(State::Closed),
            (State::Prepared, _) => wrong("the transaction is prepared; only 'commit' or 'abort' may follow"),
            (State::Started, Request::Start) => wrong("the transaction was started already"),
            (_, Request::Start) => Ok(State::Started),
            (_, Request::Prepare) => Ok(State::Prepared),
            (state, Request::NoDeref | Request::Change(_)) => Ok(state),
        }
    }

    /// Returns whether the end of the input commits what was asked for.
    pub fn commits_at_end(self) -> bool {
        self == State::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(requests: &[Request]) -> anyhow::Result<State> {
        requests
            .iter()
            .try_fold(State::Open, |state, request| state.after(request))
    }

    #[test]
    fn transactions_open_and_close() {
        use Request::*;
        assert_eq!(run(&[NoDeref]).unwrap(), State::Open);
        assert_eq!(run(&[NoDeref, Start, NoDeref]).unwrap(), State::Started);
        assert_eq!(run(&[Prepare]).unwrap(), State::Prepared);
        assert_eq!(run(&[Start, Prepare, Commit, Start, Abort]).unwrap(), State::Closed);
        for bad in [
            &[Start, Start][..],
            &[Prepare, NoDeref],
            &[Prepare, Prepare],
            &[Commit, Commit],
            &[Abort, NoDeref],
        ] {
            assert!(run(bad).is_err(), "{bad:?}");
        }
    }
}
