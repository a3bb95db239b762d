//! The forms of types in the schema log, user types among them: the way there and back.
//!
//! Invariants: what was written reads back equal; a user type that is larger than types may be is an error.
//!
//! 1. A user type stands whole in each type that holds it, fields and all, so that an entry is read without any other.
//! 2. A kind of type that came later has a variant of its own, with the format from which on it may be there.
//!
//! The names of the variants and of their fields are the format: serde writes them as JSON (`form.rs`).
//!
//! Not here: functions (`function_form.rs`), tables (`form.rs`), types by the names of classes (`types/class.rs`), the
//! specification (`schema/FORMAT.md`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{Component, CqlType, CustomType, UserType};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTypeForm {
    keyspace: String,
    name: String,
    fields: Vec<(String, TypeForm)>,
    /// Absent in format 1, and then false.
    #[serde(default)]
    ended: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum TypeForm {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// From format 5 on.
    Empty,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List {
        element: Box<TypeForm>,
        frozen: bool,
    },
    Set {
        element: Box<TypeForm>,
        frozen: bool,
    },
    Map {
        key: Box<TypeForm>,
        value: Box<TypeForm>,
        frozen: bool,
    },
    Tuple(Vec<TypeForm>),
    Udt {
        definition: Box<UserTypeForm>,
        frozen: bool,
    },
    Vector {
        element: Box<TypeForm>,
        dimensions: u32,
    },
    /// From format 8 on: types, and whether their order is reversed.
    Composite(Vec<(TypeForm, bool)>),
    /// From format 8 on: the character of each, its type, and whether its order is reversed.
    DynamicComposite(Vec<(u8, TypeForm, bool)>),
    /// From format 8 on.
    LexicalUuid,
}

impl UserTypeForm {
    pub(super) fn of(ty: &UserType) -> UserTypeForm {
        let field = |(name, ty): &(String, CqlType)| (name.clone(), TypeForm::of(ty));
        UserTypeForm {
            keyspace: ty.keyspace.clone(),
            name: ty.name.clone(),
            fields: ty.fields.iter().map(field).collect(),
            ended: ty.ended,
        }
    }

    pub(super) fn checked(self) -> Result<UserType, String> {
        let ty = self.user_type();
        let limits = ty.fields.iter().try_for_each(|(_, field)| field.check_limits());
        limits.map_err(|error| format!("type {}.{}: {error}", ty.keyspace, ty.name))?;
        Ok(ty)
    }

    fn user_type(self) -> UserType {
        let fields = self.fields.into_iter().map(|(name, form)| (name, form.ty()));
        let mut ty = UserType::new(&self.keyspace, &self.name, fields.collect());
        ty.ended = self.ended;
        ty
    }
}

impl TypeForm {
    pub(super) fn of(ty: &CqlType) -> TypeForm {
        let boxed = |ty: &CqlType| Box::new(TypeForm::of(ty));
        match ty {
            CqlType::Ascii => TypeForm::Ascii,
            CqlType::Bigint => TypeForm::Bigint,
            CqlType::Blob => TypeForm::Blob,
            CqlType::Boolean => TypeForm::Boolean,
            CqlType::Counter => TypeForm::Counter,
            CqlType::Date => TypeForm::Date,
            CqlType::Decimal => TypeForm::Decimal,
            CqlType::Double => TypeForm::Double,
            CqlType::Duration => TypeForm::Duration,
            CqlType::Empty => TypeForm::Empty,
            CqlType::Float => TypeForm::Float,
            CqlType::Inet => TypeForm::Inet,
            CqlType::Int => TypeForm::Int,
            CqlType::Smallint => TypeForm::Smallint,
            CqlType::Text => TypeForm::Text,
            CqlType::Time => TypeForm::Time,
            CqlType::Timestamp => TypeForm::Timestamp,
            CqlType::Timeuuid => TypeForm::Timeuuid,
            CqlType::Tinyint => TypeForm::Tinyint,
            CqlType::Uuid => TypeForm::Uuid,
            CqlType::Varint => TypeForm::Varint,
            CqlType::List { element, frozen } => {
                TypeForm::List { element: boxed(element), frozen: *frozen }
            }
            CqlType::Set { element, frozen } => {
                TypeForm::Set { element: boxed(element), frozen: *frozen }
            }
            CqlType::Map { key, value, frozen } => {
                TypeForm::Map { key: boxed(key), value: boxed(value), frozen: *frozen }
            }
            CqlType::Tuple(parts) => TypeForm::Tuple(parts.iter().map(TypeForm::of).collect()),
            CqlType::Udt { definition, frozen } => {
                let definition = Box::new(UserTypeForm::of(definition));
                TypeForm::Udt { definition, frozen: *frozen }
            }
            CqlType::Vector { element, dimensions } => {
                TypeForm::Vector { element: boxed(element), dimensions: *dimensions }
            }
            CqlType::Custom(custom) => TypeForm::of_custom(custom),
        }
    }

    fn of_custom(custom: &CustomType) -> TypeForm {
        match custom {
            CustomType::Composite(parts) => {
                let form = |part: &Component| (TypeForm::of(&part.ty), part.reversed);
                TypeForm::Composite(parts.iter().map(form).collect())
            }
            CustomType::DynamicComposite(aliases) => {
                let form = |(alias, part): &(u8, Component)| {
                    (*alias, TypeForm::of(&part.ty), part.reversed)
                };
                TypeForm::DynamicComposite(aliases.iter().map(form).collect())
            }
            CustomType::LexicalUuid => TypeForm::LexicalUuid,
        }
    }

    pub(super) fn ty(self) -> CqlType {
        let component = |form: TypeForm, reversed| Component { ty: form.ty(), reversed };
        match self {
            TypeForm::Ascii => CqlType::Ascii,
            TypeForm::Bigint => CqlType::Bigint,
            TypeForm::Blob => CqlType::Blob,
            TypeForm::Boolean => CqlType::Boolean,
            TypeForm::Counter => CqlType::Counter,
            TypeForm::Date => CqlType::Date,
            TypeForm::Decimal => CqlType::Decimal,
            TypeForm::Double => CqlType::Double,
            TypeForm::Duration => CqlType::Duration,
            TypeForm::Empty => CqlType::Empty,
            TypeForm::Float => CqlType::Float,
            TypeForm::Inet => CqlType::Inet,
            TypeForm::Int => CqlType::Int,
            TypeForm::Smallint => CqlType::Smallint,
            TypeForm::Text => CqlType::Text,
            TypeForm::Time => CqlType::Time,
            TypeForm::Timestamp => CqlType::Timestamp,
            TypeForm::Timeuuid => CqlType::Timeuuid,
            TypeForm::Tinyint => CqlType::Tinyint,
            TypeForm::Uuid => CqlType::Uuid,
            TypeForm::Varint => CqlType::Varint,
            TypeForm::List { element, frozen } => {
                CqlType::List { element: Arc::new(element.ty()), frozen }
            }
            TypeForm::Set { element, frozen } => {
                CqlType::Set { element: Arc::new(element.ty()), frozen }
            }
            TypeForm::Map { key, value, frozen } => {
                CqlType::Map { key: Arc::new(key.ty()), value: Arc::new(value.ty()), frozen }
            }
            TypeForm::Tuple(parts) => CqlType::Tuple(parts.into_iter().map(TypeForm::ty).collect()),
            TypeForm::Udt { definition, frozen } => {
                CqlType::Udt { definition: Arc::new(definition.user_type()), frozen }
            }
            TypeForm::Vector { element, dimensions } => {
                CqlType::Vector { element: Arc::new(element.ty()), dimensions }
            }
            TypeForm::Composite(parts) => {
                let parts = parts.into_iter().map(|(form, reversed)| component(form, reversed));
                CqlType::Custom(CustomType::Composite(parts.collect()).into())
            }
            TypeForm::DynamicComposite(aliases) => {
                let part = |(alias, form, reversed)| (alias, component(form, reversed));
                let aliases = aliases.into_iter().map(part).collect();
                CqlType::Custom(CustomType::DynamicComposite(aliases).into())
            }
            TypeForm::LexicalUuid => CqlType::Custom(CustomType::LexicalUuid.into()),
        }
    }
}
