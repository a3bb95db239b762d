//! A column that is stored by element, put together as one value in CQL wire form.

use super::Cell;
use crate::Result;
use crate::types::CqlType;

/// The elements of a column as one value; `None` if there are none.
pub fn collected<'r>(
    ty: &CqlType,
    cells: impl Iterator<Item = Cell<'r>>,
) -> Result<Option<Vec<u8>>> {
    let mut out = vec![0; 4];
    let mut count = 0i32;
    if let CqlType::Udt { definition, .. } = ty {
        let cells: Vec<Cell<'r>> = cells.collect();
        if cells.is_empty() {
            return Ok(None);
        }
        out.clear();
        for index in 0..definition.fields.len() {
            let path = (index as u16).to_be_bytes();
            let field = cells.iter().find(|cell| cell.path == Some(&path[..]));
            match field {
                Some(cell) => put_item(&mut out, |out| {
                    out.extend_from_slice(cell.value);
                    Ok(())
                })?,
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        return Ok(Some(out));
    }
    for cell in cells {
        count += 1;
        let (key, has_value) = match ty {
            CqlType::Set { element, .. } => (Some(element), false),
            CqlType::Map { key, .. } => (Some(key), true),
            _ => (None, true),
        };
        if let Some(key) = key {
            put_item(&mut out, |out| cell.put_element(key, out))?;
        }
        if has_value {
            put_item(&mut out, |out| {
                out.extend_from_slice(cell.value);
                Ok(())
            })?;
        }
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok((count > 0).then_some(out))
}

/// Appends a length and what `put` appends.
fn put_item(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out)?;
    let bytes = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    Ok(())
}
