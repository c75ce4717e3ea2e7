//! The pack on its way.

use std::{
    cell::RefCell,
    io::{self, Write},
    time::{Duration, Instant},
};

use gix_hash::ObjectId;

use super::{Server, View, cut::Boundary, plan::Plan, request::Request};
use crate::{
    error::Result,
    pack::{
        emit::{Naming, copy_verbatim, emit_with},
        filter::Filter,
    },
    wire::{BandWidth, Sideband, WireError, WireResult},
};

/// How often a client that waits is told how far things are.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How often a client that wants no progress hears that the server is still there, as with git.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

impl Server<'_, '_> {
    /// Sends what `request` wants and `haves` do not reach; in bands where `width` says so.
    pub(super) fn send_pack(
        &mut self,
        request: &Request,
        haves: &[ObjectId],
        boundary: Boundary,
        filter: Filter,
        width: Option<BandWidth>,
    ) -> WireResult<()> {
        if let Some(before) = &mut self.before_pack {
            before();
        }
        self.output.flush()?;
        let naming = match request.ofs_delta {
            true => Naming::Offset,
            false => Naming::Id,
        };
        let output = self.output.get_mut();
        let Some(width) = width else {
            // There is no band for errors: the pack ends too early then.
            self.told = true;
            let plan = self.view.plan(request, haves, boundary, filter, &mut |_| ())?;
            self.view.write(&plan, naming, output)?;
            return Ok(output.flush()?);
        };
        let band = RefCell::new(Sideband::new(output, width));
        self.told = true;
        let mut ticker = Ticker::new(&band, !request.no_progress);
        let sent = self
            .view
            .plan(request, haves, boundary, filter, &mut |found| ticker.found(found))
            .and_then(|plan| {
                ticker.planned(&plan);
                Ok(self.view.write(&plan, naming, &mut Data(&band))?)
            });
        match sent {
            Ok(total) => {
                let mut band = band.into_inner();
                if !request.no_progress {
                    band.progress(total)?;
                }
                Ok(band.flush()?)
            }
            Err(error) => {
                if let WireError::Refused(_) | WireError::Archive(_) = error {
                    // The error counts, not whether the client hears of it.
                    let _ = band.into_inner().error(format!("{error}\n"));
                }
                Err(error)
            }
        }
    }
}

impl View<'_> {
    /// Writes a pack, and returns what to tell about it.
    fn write(&self, plan: &Plan, naming: Naming, output: &mut dyn Write) -> Result<String> {
        match plan {
            Plan::Verbatim => {
                copy_verbatim(self.snapshot, 0, output, &mut |_, _| ())?;
                Ok("Sent a stored pack as it is\n".into())
            }
            Plan::Objects(selection) => {
                let receipt = emit_with(&self.reader, selection, naming, output, &mut |_, _| ())?;
                Ok(format!(
                    "Total {} (copied {}, made anew {})\n",
                    receipt.objects, receipt.copied, receipt.recompressed
                ))
            }
        }
    }
}

/// The band of data, while the others are in use too.
struct Data<'c, 'w>(&'c RefCell<Sideband<'w>>);

impl Write for Data<'_, '_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// Tells the client how far things are.
struct Ticker<'c, 'w> {
    band: &'c RefCell<Sideband<'w>>,
    progress: bool,
    last: Instant,
}

impl<'c, 'w> Ticker<'c, 'w> {
    fn new(band: &'c RefCell<Sideband<'w>>, progress: bool) -> Self {
        Ticker {
            band,
            progress,
            last: Instant::now(),
        }
    }

    /// So many objects were found. A client that is gone is noticed when the pack is written.
    fn found(&mut self, objects: u64) {
        let interval = match self.progress {
            true => PROGRESS_INTERVAL,
            false => KEEP_ALIVE_INTERVAL,
        };
        if self.last.elapsed() < interval {
            return;
        }
        self.last = Instant::now();
        let mut band = self.band.borrow_mut();
        let _ = match self.progress {
            true => band.progress(format!("Counting objects: {objects}\r")),
            false => band.keep_alive(),
        };
    }

    fn planned(&mut self, plan: &Plan) {
        if let (true, Plan::Objects(selection)) = (self.progress, plan) {
            let text = format!("Counting objects: {}, done.\n", selection.len());
            let _ = self.band.borrow_mut().progress(text);
        }
    }
}
