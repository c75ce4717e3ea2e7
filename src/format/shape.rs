//! Whether the numbers of a record batch fit its schema and its buffers.
//!
//! Checked before Arrow sees a byte: it then allocates no more than the message is long, and has no length to trip over.

use arrow_schema::{DataType, Field, Fields};

/// A column or a part of one as the message describes it: elements, and how many of them are null.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    pub len: u64,
    pub nulls: u64,
}

/// Checks the nodes and the buffers' lengths of a batch of `rows` rows, both depth first. `None` where they do not fit.
pub fn check(fields: &Fields, rows: u64, nodes: &[Node], buffers: &[u64]) -> Option<()> {
    let mut rest = Rest { nodes, buffers };
    fields.iter().try_for_each(|field| rest.field(field, rows))?;
    (rest.nodes.is_empty() && rest.buffers.is_empty()).then_some(())
}

/// What was not checked yet.
struct Rest<'a> {
    nodes: &'a [Node],
    buffers: &'a [u64],
}

impl Rest<'_> {
    fn field(&mut self, field: &Field, len: u64) -> Option<()> {
        let node = *self.nodes.split_off_first()?;
        let nulls_fit = node.nulls <= len && (field.is_nullable() || node.nulls == 0);
        let validity = *self.buffers.split_off_first()?;
        let validity_fits = validity >= len.div_ceil(8) || validity == 0 && node.nulls == 0;
        if node.len != len || !nulls_fit || !validity_fits {
            return None;
        }
        match field.data_type() {
            DataType::List(item) => {
                self.offsets(len, 4)?;
                // How many there are is for Arrow to compare with the offsets.
                let items = self.nodes.first()?.len;
                self.field(item, items)
            }
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.field(field, len)),
            DataType::Utf8 | DataType::Binary => self.offsets(len, 4).and_then(|()| self.buffer(0)),
            DataType::LargeBinary => self.offsets(len, 8).and_then(|()| self.buffer(0)),
            DataType::FixedSizeBinary(width) => self.buffer(len.checked_mul(u64::try_from(*width).ok()?)?),
            other => self.buffer(len.checked_mul(other.primitive_width()? as u64)?),
        }
    }

    fn offsets(&mut self, len: u64, width: u64) -> Option<()> {
        // No element needs no offset.
        let wanted = if len == 0 {
            0
        } else {
            len.checked_add(1)?.checked_mul(width)?
        };
        self.buffer(wanted)
    }

    fn buffer(&mut self, at_least: u64) -> Option<()> {
        (*self.buffers.split_off_first()? >= at_least).then_some(())
    }
}
