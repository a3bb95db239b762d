//! Values to constants: the CQL text that would write a value, as traces and messages show it.
//!
//! The inverse of this folder's parsing, with Cassandra's spacing: `toCQLLiteral` of its types.

use model::CqlType;
use model::types::{collection_elements, hex, tuple_fields, vector_elements};

use super::to_text;
use crate::lang::keyword::quoted;

/// The literal of a value of `ty`; bytes that are no such value are shown as a blob.
pub fn value_literal(ty: &CqlType, value: Option<&[u8]>) -> String {
    let Some(value) = value else { return "null".to_owned() };
    literal(ty, value).unwrap_or_else(|| hex(value))
}

fn literal(ty: &CqlType, value: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::List { element, .. } => format!("[{}]", elements(element, value)?.join(", ")),
        CqlType::Set { element, .. } => format!("{{{}}}", elements(element, value)?.join(", ")),
        CqlType::Map { key, value: of, .. } => {
            let mut items = collection_elements(value).ok()?.doubled();
            let mut pairs = Vec::new();
            while let Some(item) = items.next() {
                let key = value_literal(key, Some(item.ok()?));
                let value = value_literal(of, Some(items.next()?.ok()?));
                pairs.push(format!("{key}: {value}"));
            }
            format!("{{{}}}", pairs.join(", "))
        }
        CqlType::Tuple(parts) => {
            let mut fields = tuple_fields(value);
            let shown = parts.iter().map(|part| Some(value_literal(part, fields.next()?.ok()?)));
            format!("({})", shown.map_while(|text| text).collect::<Vec<_>>().join(", "))
        }
        CqlType::Udt { definition, .. } => {
            let mut fields = tuple_fields(value);
            let shown = definition.fields.iter().map(|(name, ty)| {
                let field = fields.next()?.ok()?;
                Some(format!("{}: {}", quoted(name), value_literal(ty, field)))
            });
            format!("{{{}}}", shown.map_while(|text| text).collect::<Vec<_>>().join(", "))
        }
        CqlType::Ascii | CqlType::Text => {
            format!("'{}'", to_text(ty, value).ok()?.replace('\'', "''"))
        }
        CqlType::Date | CqlType::Inet | CqlType::Time | CqlType::Timestamp => {
            format!("'{}'", to_text(ty, value).ok()?)
        }
        CqlType::Vector { element, dimensions } => {
            let items = vector_elements(element, *dimensions, value);
            let shown = items.map(|item| Some(value_literal(element, Some(item.ok()?))));
            format!("[{}]", shown.collect::<Option<Vec<_>>>()?.join(", "))
        }
        CqlType::Custom(_) => hex(value),
        _ => to_text(ty, value).ok()?,
    })
}

fn elements(ty: &CqlType, value: &[u8]) -> Option<Vec<String>> {
    let items = collection_elements(value).ok()?;
    items.map(|item| Some(value_literal(ty, Some(item.ok()?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_would_be_written() {
        let ints = CqlType::List { element: CqlType::Int.into(), frozen: false };
        let list = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2];
        assert_eq!(value_literal(&ints, Some(&list)), "[1, 2]");
        assert_eq!(value_literal(&CqlType::Text, Some(b"it's")), "'it''s'");
        assert_eq!(value_literal(&CqlType::Blob, Some(&[0xCA, 0xFE])), "0xcafe");
        assert_eq!(value_literal(&CqlType::Int, None), "null");
        let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: 2 };
        let floats = [1.0f32.to_be_bytes(), (-2.5f32).to_be_bytes()].concat();
        assert_eq!(value_literal(&vector, Some(&floats)), "[1.0, -2.5]");
        let pair = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
        let tuple = [0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255];
        assert_eq!(value_literal(&pair, Some(&tuple)), "(7, null)");
    }
}
