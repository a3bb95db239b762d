//! How the schema log holds what makes a table a view.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::read::Operator;
use crate::schema::{ColumnId, TableId, ViewDefinition, ViewRestriction, ViewTest};
use crate::types::{hex, unhex};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewForm {
    base: Uuid,
    include_all: bool,
    restrictions: Vec<RestrictionForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestrictionForm {
    column: u16,
    /// Nothing is `IS NOT NULL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    test: Option<TestForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestForm {
    operator: String,
    /// Each a text `0x..`.
    values: Vec<String>,
}

/// The operators that a view may have; they are written as CQL writes them.
const OPERATORS: [Operator; 6] = [
    Operator::Equal,
    Operator::Less,
    Operator::LessOrEqual,
    Operator::Greater,
    Operator::GreaterOrEqual,
    Operator::In,
];

impl ViewForm {
    pub(super) fn of(view: &ViewDefinition) -> ViewForm {
        let restrictions = view.restrictions.iter().map(|restriction| RestrictionForm {
            column: restriction.column.0,
            test: restriction.test.as_ref().map(|test| TestForm {
                operator: test.operator.symbol().to_owned(),
                values: test.values.iter().map(|value| hex(value)).collect(),
            }),
        });
        ViewForm {
            base: view.base.0,
            include_all: view.include_all,
            restrictions: restrictions.collect(),
        }
    }

    pub(super) fn view(self) -> Result<ViewDefinition, String> {
        let restrictions = self.restrictions.into_iter().map(|form| {
            let test = form.test.map(TestForm::test).transpose()?;
            Ok(ViewRestriction { column: ColumnId(form.column), test })
        });
        Ok(ViewDefinition {
            base: TableId(self.base),
            include_all: self.include_all,
            restrictions: restrictions.collect::<Result<_, String>>()?,
        })
    }
}

impl TestForm {
    fn test(self) -> Result<ViewTest, String> {
        let known = OPERATORS.into_iter().find(|known| known.symbol() == self.operator);
        let operator = known.ok_or_else(|| format!("no operator '{}' of a view", self.operator))?;
        let values = self.values.iter().map(|text| {
            let bytes = unhex(text).ok_or_else(|| format!("no bytes: {text}"))?;
            Ok(bytes.into_boxed_slice())
        });
        Ok(ViewTest { operator, values: values.collect::<Result<_, String>>()? })
    }
}
