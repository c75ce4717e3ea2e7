//! Packet lines: the frames that everything but a pushed pack goes in (gitprotocol-common(5)).

use std::io::{self, Read, Write};

use bstr::{BStr, BString, ByteSlice};
use gix_packetline::{
    Channel, PacketLineRef,
    blocking_io::encode,
    decode::{PacketLineOrWantedSize, hex_prefix},
};

use super::error::{WireError, WireResult};

/// A frame without its length.
pub type Packet<'a> = PacketLineRef<'a>;

/// The most bytes of data that one packet holds.
pub const MAX_DATA: usize = 65516;

/// Reads packets. Never reads beyond the last one it returned, so that what follows can be read from the stream itself.
pub struct PacketReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// So many bytes may still come in this request.
    left: u64,
}

/// The most bytes of the packets of one request. What a request says is kept in memory: without an end to it, a client could fill that.
/// The longest that git makes have some 50 bytes an object.
const MAX_REQUEST: u64 = 1 << 30;

impl<R: Read> PacketReader<R> {
    /// Reads from `input`, which should be buffered.
    pub fn new(input: R) -> Self {
        PacketReader {
            input,
            buffer: Vec::new(),
            left: MAX_REQUEST,
        }
    }

    /// Begins another request, which may be as long as the one before.
    pub fn begin(&mut self) {
        self.left = MAX_REQUEST;
    }

    /// Returns the next packet; `None` where the stream ends before it.
    ///
    /// # Errors
    /// Fails where the stream ends within a packet, and for anything that is no packet.
    pub fn read(&mut self) -> WireResult<Option<Packet<'_>>> {
        let mut prefix = [0; 4];
        // Told from an end within a packet, which is an error.
        loop {
            match self.input.read(&mut prefix[..1]) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.input.read_exact(&mut prefix[1..])?;
        self.take(prefix.len())?;
        // An empty packet is unusual, but git sends one for an empty push option.
        if prefix == *b"0004" {
            return Ok(Some(Packet::Data(&[])));
        }
        let malformed = || WireError::refused(format!("protocol error: bad line length {:?}", prefix.as_bstr()));
        let len = match hex_prefix(&prefix).map_err(|_| malformed())? {
            PacketLineOrWantedSize::Line(line) => {
                return Ok(Some(match line {
                    PacketLineRef::Flush => Packet::Flush,
                    PacketLineRef::Delimiter => Packet::Delimiter,
                    _ => Packet::ResponseEnd,
                }));
            }
            PacketLineOrWantedSize::Wanted(len) => usize::from(len),
        };
        if len > MAX_DATA {
            return Err(malformed());
        }
        self.take(len)?;
        self.buffer.resize(len, 0);
        self.input.read_exact(&mut self.buffer)?;
        Ok(Some(Packet::Data(&self.buffer)))
    }

    /// Counts bytes of a request.
    fn take(&mut self, bytes: usize) -> WireResult<()> {
        self.left = self
            .left
            .checked_sub(bytes as u64)
            .ok_or_else(|| WireError::refused(format!("protocol error: a request of more than {MAX_REQUEST} bytes")))?;
        Ok(())
    }

    /// Returns the next packet's text without its line end; `None` at a packet without data.
    ///
    /// # Errors
    /// As [`PacketReader::read`], and where the stream ends.
    pub fn line(&mut self) -> WireResult<Option<&BStr>> {
        match self.read()? {
            Some(Packet::Data(data)) => Ok(Some(without_line_end(data))),
            Some(_) => Ok(None),
            None => Err(WireError::HungUp),
        }
    }

    /// Returns the lines up to the next packet without data.
    ///
    /// # Errors
    /// As [`PacketReader::read`], and where there are more than `most`.
    pub fn lines(&mut self, most: usize) -> WireResult<Vec<BString>> {
        let mut lines = Vec::new();
        while let Some(line) = self.line()? {
            if lines.len() == most {
                return Err(WireError::refused(format!("protocol error: more than {most} lines")));
            }
            lines.push(line.to_owned());
        }
        Ok(lines)
    }

    /// Returns the stream, from behind the last packet on.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.input
    }
}

/// Returns `data` without the line end that the sender may have left out.
pub fn without_line_end(data: &[u8]) -> &BStr {
    data.strip_suffix(b"\n").unwrap_or(data).as_bstr()
}

/// Writes packets.
pub struct PacketWriter<W> {
    output: W,
    /// Each packet with data goes into the band of data.
    banded: bool,
}

impl<W: Write> PacketWriter<W> {
    /// Writes to `output`, which should be buffered.
    pub fn new(output: W) -> Self {
        PacketWriter { output, banded: false }
    }

    /// Writes a line, adding its end.
    ///
    /// # Errors
    /// Fails where it is too long for a packet, and where the stream cannot be written.
    pub fn line(&mut self, text: impl AsRef<[u8]>) -> WireResult<()> {
        let text = text.as_ref();
        match self.banded {
            true => encode::band_to_write(Channel::Data, &[text, b"\n"].concat(), &mut self.output)?,
            false => encode::text_to_write(text, &mut self.output)?,
        };
        Ok(())
    }

    /// Writes data as it is.
    ///
    /// # Errors
    /// As [`PacketWriter::line`].
    pub fn data(&mut self, data: &[u8]) -> WireResult<()> {
        match self.banded {
            true => encode::band_to_write(Channel::Data, data, &mut self.output)?,
            false => encode::data_to_write(data, &mut self.output)?,
        };
        Ok(())
    }

    /// Puts lines and data into the band of data from now on, or not (`sideband-all` of version 2).
    pub fn set_banded(&mut self, banded: bool) {
        self.banded = banded;
    }

    /// Writes the error that ends a conversation.
    ///
    /// # Errors
    /// As [`PacketWriter::line`].
    pub fn error(&mut self, text: impl AsRef<[u8]>) -> WireResult<()> {
        let text = text.as_ref();
        encode::error_to_write(&text[..text.len().min(MAX_DATA - 4)], &mut self.output)?;
        self.flush()
    }

    /// Writes the packet that ends a list.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn end(&mut self) -> WireResult<()> {
        encode::flush_to_write(&mut self.output)?;
        Ok(())
    }

    /// Writes the packet that ends a section.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn delimiter(&mut self) -> WireResult<()> {
        encode::delim_to_write(&mut self.output)?;
        Ok(())
    }

    /// Hands on everything written so far.
    ///
    /// # Errors
    /// Fails where the stream cannot be written.
    pub fn flush(&mut self) -> WireResult<()> {
        Ok(self.output.flush()?)
    }

    /// Returns the stream itself.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_behind_it() {
        let mut writer = PacketWriter::new(Vec::new());
        writer.line("hello").unwrap();
        writer.data(b"a\0b").unwrap();
        writer.delimiter().unwrap();
        writer.end().unwrap();
        let bytes = std::mem::take(writer.get_mut());
        assert_eq!(bytes.as_bstr(), "000ahello\n0007a\0b00010000");
        let stream = [&bytes[..], b"PACK"].concat();
        let mut reader = PacketReader::new(&stream[..]);
        assert_eq!(reader.line().unwrap().unwrap(), "hello");
        assert_eq!(reader.read().unwrap(), Some(Packet::Data(b"a\0b")));
        assert_eq!(reader.read().unwrap(), Some(Packet::Delimiter));
        assert_eq!(reader.read().unwrap(), Some(Packet::Flush));
        assert_eq!(*reader.get_mut(), b"PACK");
    }

    #[test]
    fn an_end_between_packets_is_none_and_within_one_an_error() {
        assert_eq!(PacketReader::new(&b""[..]).read().unwrap(), None);
        for cut in ["0", "000", "0005", "0006a"] {
            assert!(
                PacketReader::new(cut.as_bytes()).read().unwrap_err().is_hang_up(),
                "{cut}"
            );
        }
        for wrong in ["zzzz", "0003", "fff1", "ffff", "-001", "00 5"] {
            let stream = [wrong.as_bytes(), &[0; 70000]].concat();
            let error = PacketReader::new(&stream[..]).read().unwrap_err();
            assert!(matches!(error, WireError::Refused(_)), "{wrong}: {error}");
        }
        assert_eq!(PacketReader::new(&b"0004"[..]).read().unwrap(), Some(Packet::Data(&[])));
    }

    #[test]
    fn a_list_has_a_bound() {
        let mut reader = PacketReader::new(&b"0006a\n0006b\n0000"[..]);
        assert_eq!(reader.lines(2).unwrap(), ["a", "b"]);
        assert!(PacketReader::new(&b"0006a\n0006b\n0000"[..]).lines(1).is_err());
    }
}
