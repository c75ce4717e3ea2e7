//! Time, processor time and load.

use std::time::{Duration, Instant};

use anyhow::Result;

/// What a run took.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    /// User and system time of this process and of all that it waited for.
    pub cpu: Duration,
}

/// Runs `work` and returns what it took.
pub fn measure(work: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let (cpu, start) = (cpu(), Instant::now());
    work()?;
    Ok(Cost {
        wall: start.elapsed(),
        cpu: self::cpu() - cpu,
    })
}

fn cpu() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(usage).sum()
}

fn usage(who: libc::c_int) -> Duration {
    // SAFETY: `rusage` is plain data, and the call fills what it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Returns the load average of the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(f64::NAN)
}
