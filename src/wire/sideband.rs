//! Side bands: data, progress and errors in one stream.

use std::io::{self, Write};

use gix_packetline::{Channel, blocking_io::encode};

/// How much goes into one packet of a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandWidth {
    /// `side-band`: packets of at most 1000 bytes.
    Small,
    /// `side-band-64k`.
    Large,
}

impl BandWidth {
    /// Returns the most bytes that a packet carries.
    fn payload(self) -> usize {
        match self {
            BandWidth::Small => 995,
            BandWidth::Large => 65515,
        }
    }
}

/// A stream that is divided into bands. As [`Write`], it is the band of data.
///
/// Data is not gathered: write large pieces.
pub struct Sideband<'w> {
    output: &'w mut dyn Write,
    payload: usize,
    packets: Vec<u8>,
}

impl<'w> Sideband<'w> {
    pub fn new(output: &'w mut dyn Write, width: BandWidth) -> Self {
        Sideband {
            output,
            payload: width.payload(),
            packets: Vec::new(),
        }
    }

    /// Writes text for the user to read as it comes: whole lines, or ones that end in a carriage return. It is on its way
    /// afterwards.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn progress(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.band(Channel::Progress, text.as_ref())?;
        self.output.flush()
    }

    /// Writes the error that ends the conversation.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn error(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.band(Channel::Error, text.as_ref())?;
        self.output.flush()
    }

    /// Says that the server is still there, with a packet of no data.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn keep_alive(&mut self) -> io::Result<()> {
        self.output.write_all(b"0005\x01")?;
        self.output.flush()
    }

    fn band(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        // One write for all packets: heads of five bytes are not worth a system call each.
        self.packets.clear();
        for part in bytes.chunks(self.payload) {
            encode::band_to_write(channel, part, &mut self.packets)?;
        }
        self.output.write_all(&self.packets)
    }
}

impl Write for Sideband<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.band(Channel::Data, data).map(|()| data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_cut_to_their_width() {
        for (width, most) in [(BandWidth::Small, 1000), (BandWidth::Large, 65520)] {
            let mut stream = Vec::new();
            let mut band = Sideband::new(&mut stream, width);
            band.write_all(&vec![7; 200_000]).unwrap();
            band.progress("half\r").unwrap();
            band.keep_alive().unwrap();
            band.error("no").unwrap();
            let mut rest = &stream[..];
            let (mut data, mut others) = (0, Vec::new());
            while !rest.is_empty() {
                let len = usize::from_str_radix(std::str::from_utf8(&rest[..4]).unwrap(), 16).unwrap();
                assert!(len <= most);
                match rest[4] {
                    1 => data += len - 5,
                    _ => others.push(&rest[4..len]),
                }
                rest = &rest[len..];
            }
            assert_eq!(data, 200_000);
            assert_eq!(others, [&b"\x02half\r"[..], b"\x03no"]);
        }
    }
}
