//! A column that is stored by element, put together as one value in CQL wire form.

use super::Cell;
use crate::limits::COLLECTED_BYTES_MAX;
use crate::steps::step;
use crate::types::CqlType;
use crate::{Error, Result};

/// The elements of a column as one value; `None` if there are none. They ascend by path, as in a row.
pub fn collected<'r>(
    ty: &CqlType,
    cells: impl Iterator<Item = Cell<'r>>,
) -> Result<Option<Vec<u8>>> {
    if let CqlType::Udt { definition, .. } = ty {
        return fields_collected(definition.fields.len(), cells);
    }
    let mut out = vec![0; 4];
    let mut count = 0i32;
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
            put_value(&mut out, cell.value)?;
        }
        // A path may come back thousands of times as long, with all fields that its type has by now. A list is as long
        // as its row, and what is put together is a second copy of it.
        if out.len() > COLLECTED_BYTES_MAX {
            return Err(too_long());
        }
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok((count > 0).then_some(out))
}

/// The fields of a user type of so many. Cells and fields ascend alike: both are gone through once.
fn fields_collected<'r>(
    count: usize,
    cells: impl Iterator<Item = Cell<'r>>,
) -> Result<Option<Vec<u8>>> {
    let mut cells = cells.inspect(|_| step(1)).peekable();
    if cells.peek().is_none() {
        return Ok(None);
    }
    let mut out = Vec::new();
    for index in 0..count {
        let path = (index as u16).to_be_bytes();
        while cells.next_if(|cell| cell.path < Some(&path[..])).is_some() {}
        match cells.next_if(|cell| cell.path == Some(&path[..])) {
            Some(cell) => put_value(&mut out, cell.value)?,
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    Ok(Some(out))
}

#[cold]
fn too_long() -> Error {
    Error::invalid(format!(
        "a collection has more than {COLLECTED_BYTES_MAX} bytes when it is put together: of a set or map, select the elements one by one"
    ))
}

fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<()> {
    put_item(out, |out| {
        out.extend_from_slice(value);
        Ok(())
    })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cell::Life;
    use crate::schema::ColumnId;
    use crate::steps::steps_of;
    use crate::types::UserType;

    /// Before: for each field all cells were gone through from the first: one row of a type of 50,000 fields took a
    /// core seconds in one step.
    #[test]
    fn each_cell_of_a_user_type_is_looked_at_once() {
        const FIELDS: u16 = 1_000;
        let fields = (0..FIELDS).map(|n| (format!("f{n}"), CqlType::Tinyint)).collect();
        let definition = UserType::new("ks", "wide", fields).into();
        let ty = CqlType::Udt { definition, frozen: false };
        // A cell behind the last field is one of a type that has grown since.
        for written in [vec![0, 1, 500, 999, 1_000], (0..FIELDS).collect(), vec![999], vec![]] {
            let paths: Vec<[u8; 2]> =
                written.iter().map(|index: &u16| index.to_be_bytes()).collect();
            let cells = paths.iter().map(|path| Cell {
                column: ColumnId(3),
                timestamp: 1,
                life: Life::Live,
                path: Some(&path[..]),
                written: None,
                whole: false,
                value: &path[1..],
            });
            let (steps, value) = steps_of(|| collected(&ty, cells));
            let value_of = |index: u16| match written.contains(&index) {
                true => vec![0, 0, 0, 1, index.to_be_bytes()[1]],
                false => vec![0xFF; 4],
            };
            let whole: Vec<u8> = (0..FIELDS).flat_map(value_of).collect();
            assert_eq!(value.unwrap(), (!written.is_empty()).then_some(whole), "{written:?}");
            let most = usize::from(FIELDS) + written.len();
            assert!(steps <= most, "{steps} steps for {} cells", written.len());
        }
    }

    /// Before: a set of a million elements whose type had got 60,000 fields was made into 240 GB.
    #[test]
    fn a_set_whose_type_has_grown_by_thousands_of_fields_is_refused() {
        let fields = (0..60_000).map(|n| (format!("f{n}"), CqlType::Tinyint)).collect();
        let definition = UserType::new("ks", "wide", fields).into();
        let element = CqlType::Udt { definition, frozen: true }.into();
        let ty = CqlType::Set { element, frozen: false };
        let path = [0x40, 0x40, 0x80, 0x00];
        let cell = Cell { path: Some(&path), ..Cell::live(ColumnId(3), 1, &[]) };
        let few = collected(&ty, std::iter::repeat_n(cell, 200)).expect("48 MB").expect("a set");
        assert_eq!(few.len(), 4 + 200 * (4 + 5 + 59_999 * 4));
        let refused = collected(&ty, std::iter::repeat_n(cell, 1 << 20)).expect_err("240 GB");
        assert!(refused.to_string().starts_with("a collection has more than"), "{refused}");
    }

    #[test]
    fn lists_and_maps_of_too_many_bytes_are_refused() {
        let (int, blob) = (Arc::new(CqlType::Int), Arc::new(CqlType::Blob));
        let list = CqlType::List { element: blob.clone(), frozen: false };
        let map = CqlType::Map { key: int, value: blob, frozen: false };
        let value = vec![7; COLLECTED_BYTES_MAX / 4];
        let path = [0x40, 0x80, 0, 0, 1];
        let cell = Cell { path: Some(&path), ..Cell::live(ColumnId(3), 1, &value) };
        for (ty, bytes_beside) in [(list, 4), (map, 4 + 4 + 4)] {
            let made = collected(&ty, std::iter::repeat_n(cell, 3)).unwrap().expect("values");
            assert_eq!(made.len(), 4 + 3 * (bytes_beside + value.len()));
            // Four quarters, and their lengths beside them.
            let refused = collected(&ty, std::iter::repeat_n(cell, 4)).expect_err("too long");
            assert!(refused.to_string().starts_with("a collection has more than"), "{refused}");
        }
    }
}
