//! Compression of what an entry holds.

use std::io;

use gix_zlib::{
    Compression, Status,
    stream::deflate::{Compress, FlushCompress},
};

/// Compresses one object after the other, as quickly as can be.
#[derive(Default)]
pub(super) struct Deflater(Option<Compress>);

impl Deflater {
    /// Appends `data` to `out`, compressed.
    ///
    /// # Errors
    /// Fails where the compressor does.
    pub fn append(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let compress = self.0.get_or_insert_with(|| Compress::new(Compression::BEST_SPEED));
        compress.reset();
        let mut filled = out.len();
        // What hardly compresses grows by a few bytes a block.
        out.resize(filled + data.len() + data.len() / 1000 + 64, 0);
        loop {
            let (read, before) = (compress.total_in() as usize, compress.total_out());
            let status = compress.compress(&data[read..], &mut out[filled..], FlushCompress::Finish);
            filled += (compress.total_out() - before) as usize;
            match status.map_err(io::Error::other)? {
                Status::StreamEnd => break,
                _ => out.resize(out.len() + out.len() / 4 + 4096, 0),
            }
        }
        out.truncate(filled);
        Ok(())
    }
}
