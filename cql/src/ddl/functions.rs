//! CREATE and DROP of functions and aggregates of users.
//!
//! 1. What a statement says is checked in Cassandra's order, so that its first error is Cassandra's.
//! 2. The body of a function is compiled before the function is made, and thrown away: each core compiles its own.
//! 3. A function stays while an aggregate is made of it; another body may take the place of the old one, with the same
//!    types and the same word on nulls.
//!
//! Not here: what runs functions (`functions`), which of them a call means (`expr/resolve.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use model::CqlType;
use model::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX};
use model::schema::{
    FunctionKey, FunctionLanguage, Keyspace, SchemaChange, TableBuilder, UserAggregate,
    UserFunction,
};

use super::{Ddl, DdlContext, Object};
use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType};
use crate::lang::ast::{
    CreateAggregate, CreateFunction, DropFunction, Existing, Expr, FunctionKind, QualifiedName,
    TypeName,
};
use crate::limits::{FUNCTION_ARGUMENTS_MAX, FUNCTION_BODY_BYTES_MAX, FUNCTIONS_MAX};
use crate::types::resolve_type;

/// Refuses functions and aggregates where they are not switched on, in Cassandra's words.
fn check_enabled(context: &DdlContext<'_>) -> Result<()> {
    match context.functions_enabled {
        true => Ok(()),
        false => Err(Error::invalid(
            "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable",
        )),
    }
}

pub(super) fn create(context: &DdlContext<'_>, create: &CreateFunction) -> Result<Ddl> {
    check_enabled(context)?;
    let keyspace_name = keyspace_of(context, &create.name)?;
    check_directives(create.existing)?;
    let name = &create.name.name;
    let language = FunctionLanguage::named(&create.language).ok_or_else(|| {
        Error::invalid(format!(
            "Language '{}' is not supported: functions are written in lua or wasm",
            create.language
        ))
    })?;
    let mut seen = HashSet::with_capacity(create.arguments.len());
    if !create.arguments.iter().all(|(argument, _)| seen.insert(argument)) {
        let names: Vec<&str> = create.arguments.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::invalid(format!(
            "Duplicate argument names for given function {name} with argument names [{}]",
            names.join(", ")
        )));
    }
    check_not_frozen("Argument", create.arguments.iter().map(|(_, ty)| ty))?;
    check_not_frozen("Return type", [&create.result])?;
    let keyspace = context.existing(keyspace_name)?;
    check_limits(name, create.arguments.len())?;
    if create.body.len() > FUNCTION_BODY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the body of a function has {} bytes, at most {FUNCTION_BODY_BYTES_MAX} are allowed",
            create.body.len()
        )));
    }
    let resolved = |ty: &TypeName| resolve_type(ty, keyspace_name, context.schema);
    let arguments = create.arguments.iter().map(|(name, ty)| Ok((name.clone(), resolved(ty)?)));
    let function = UserFunction {
        keyspace: keyspace_name.to_owned(),
        name: name.clone(),
        arguments: arguments.collect::<Result<_>>()?,
        result: resolved(&create.result)?,
        called_on_null: create.called_on_null,
        language,
        body: create.body.clone(),
    };
    let key = function.key();
    check_key(context, keyspace, &key)?;
    context.functions.check(&function)?;
    let old = keyspace.functions.get(&key);
    if keyspace.aggregates.contains_key(&key) {
        return Err(Error::invalid(format!("Function '{name}' cannot replace an aggregate")));
    }
    if let Some(old) = old {
        if create.existing.kept {
            return Ok(Ddl::nothing());
        }
        check_replaced(create.existing, old, &function)?;
    }
    let change = if old.is_some() { "UPDATED" } else { "CREATED" };
    let object = Object::Function(name.clone(), shown(function.types()));
    let step = SchemaChange::PutFunction(Box::new(function));
    Ok(Ddl::step(step, change, keyspace_name, object, Vec::new()))
}

/// Refuses a function in the place of another that it cannot take.
fn check_replaced(existing: Existing, old: &UserFunction, new: &UserFunction) -> Result<()> {
    let name = &new.name;
    if !existing.replaced {
        return Err(Error::invalid(format!("Function '{name}' already exists")));
    }
    if old.called_on_null != new.called_on_null {
        let word = if new.called_on_null { "CALLED" } else { "RETURNS NULL" };
        let text = format!("Function '{name}' must have {word} ON NULL INPUT directive");
        return Err(Error::Invalid(text));
    }
    if old.result.frozen() != new.result.frozen() {
        return Err(Error::invalid(format!(
            "Cannot replace function '{name}', the new return type {} is not compatible with the return type {} of existing function",
            new.result, old.result
        )));
    }
    Ok(())
}

pub(super) fn create_aggregate(context: &DdlContext<'_>, create: &CreateAggregate) -> Result<Ddl> {
    check_enabled(context)?;
    let keyspace_name = keyspace_of(context, &create.name)?;
    check_directives(create.existing)?;
    check_not_frozen("Argument", &create.arguments)?;
    check_not_frozen("State type", [&create.state])?;
    let keyspace = context.schema.keyspace(keyspace_name).ok_or_else(|| {
        // Another code than elsewhere, and no quotes, as Cassandra has it.
        Error::Config(format!("Keyspace {keyspace_name} doesn't exist"))
    })?;
    check_limits(&create.name.name, create.arguments.len())?;
    let resolved = |ty: &TypeName| resolve_type(ty, keyspace_name, context.schema);
    let mut aggregate = UserAggregate {
        keyspace: keyspace_name.to_owned(),
        name: create.name.name.clone(),
        arguments: create.arguments.iter().map(resolved).collect::<Result<_>>()?,
        state_function: create.state_function.clone(),
        state: resolved(&create.state)?,
        final_function: create.final_function.clone(),
        reduce_function: create.reduce_function.clone(),
        initial: None,
        result: CqlType::Blob,
    };
    check_key(context, keyspace, &aggregate.key())?;
    let state = part(keyspace, "State", &aggregate.state_key())?;
    if state.result.frozen() != aggregate.state.frozen() {
        return Err(Error::invalid(format!(
            "State function {} return type must be the same as the first argument type - check STYPE, argument and return types",
            signature(keyspace_name, &aggregate.state_key())
        )));
    }
    aggregate.result = state.result.clone();
    if let Some(key) = aggregate.reduce_key() {
        let reduce = part(keyspace, "Reduce", &key)?;
        if reduce.result.frozen() != aggregate.state.frozen() {
            return Err(Error::invalid(format!(
                "Reduce function {} return type must be the same as the state type - check STYPE and return types",
                signature(keyspace_name, &key)
            )));
        }
    }
    if let Some(key) = aggregate.final_key() {
        aggregate.result = part(keyspace, "Final", &key)?.result.clone();
    }
    if let Some(initial) = &create.initial {
        aggregate.initial = first_state(context, keyspace_name, initial, &aggregate.state)?;
    }
    if !state.called_on_null && aggregate.initial.is_none() {
        return Err(Error::invalid(format!(
            "Cannot create aggregate '{}' without INITCOND because state function {keyspace_name}.{} does not accept 'null' arguments",
            aggregate.name, state.name
        )));
    }
    put_aggregate(keyspace, create.existing, aggregate)
}

/// The change that makes an aggregate, unless one of its name and types stands in its way.
fn put_aggregate(keyspace: &Keyspace, existing: Existing, aggregate: UserAggregate) -> Result<Ddl> {
    let (key, name) = (aggregate.key(), &aggregate.name);
    if keyspace.functions.contains_key(&key) {
        return Err(Error::invalid(format!("Aggregate '{name}' cannot replace a function")));
    }
    let old = keyspace.aggregates.get(&key);
    if let Some(old) = old {
        if existing.kept {
            return Ok(Ddl::nothing());
        }
        if !existing.replaced {
            return Err(Error::invalid(format!("Aggregate '{name}' already exists")));
        }
        if old.result.frozen() != aggregate.result.frozen() {
            return Err(Error::invalid(format!(
                "Cannot replace aggregate '{name}', the new return type {} isn't compatible with the return type {} of existing function",
                aggregate.result, old.result
            )));
        }
    }
    let change = if old.is_some() { "UPDATED" } else { "CREATED" };
    let object = Object::Aggregate(name.clone(), shown(&aggregate.arguments));
    let step = SchemaChange::PutAggregate(Box::new(aggregate));
    Ok(Ddl::step(step, change, &keyspace.name, object, Vec::new()))
}

/// A function that an aggregate is made of.
fn part<'k>(
    keyspace: &'k Keyspace,
    what: &str,
    key: &FunctionKey,
) -> Result<&'k Arc<UserFunction>> {
    if let Some(function) = keyspace.functions.get(key) {
        return Ok(function);
    }
    let signature = signature(&keyspace.name, key);
    Err(Error::invalid(match keyspace.aggregates.contains_key(key) {
        true => format!("{what} function {signature} isn't a scalar function"),
        false => format!("{what} function {signature} doesn't exist"),
    }))
}

/// The bytes of an `INITCOND`; `None` is null.
fn first_state(
    context: &DdlContext<'_>,
    keyspace: &str,
    initial: &Expr,
    ty: &CqlType,
) -> Result<Option<Vec<u8>>> {
    // Terms belong to a table, whatever they are of.
    let table = TableBuilder::new(keyspace, "(dummy)", context.table_id)
        .partition_key("(dummy)", CqlType::Int)
        .and_then(TableBuilder::build)?;
    let mut compiler = Compiler::new(context.schema, &table, &[]);
    let term = compiler.term(initial, &ExpectedType::new("(dummy)", ty.frozen()))?;
    if !term.is_constant() {
        return Err(Error::invalid(format!("INITCOND must be a constant, {initial} is none")));
    }
    let bytes = term.constant_bytes();
    if bytes.is_some_and(<[u8]>::is_empty) && !ty.has_empty_value() {
        let text = "INITCOND must not be empty for all types except TEXT, ASCII, BLOB";
        return Err(Error::invalid(text));
    }
    Ok(bytes.map(<[u8]>::to_vec))
}

pub(super) fn drop(context: &DdlContext<'_>, drop: &DropFunction) -> Result<Ddl> {
    let keyspace_name = keyspace_of(context, &drop.name)?;
    let (name, arguments) = (&drop.name.name, &drop.arguments);
    let what = match drop.kind {
        FunctionKind::Scalar => "Function",
        FunctionKind::Aggregate => "Aggregate",
    };
    let mut written = format!("{keyspace_name}.{name}");
    if let Some(arguments) = arguments {
        let types: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        written = format!("{written}({})", types.join(", "));
    }
    let missing = || match drop.if_exists {
        true => Ok(Ddl::nothing()),
        false => Err(Error::invalid(format!("{what} '{written}' doesn't exist"))),
    };
    let Some(keyspace) = context.schema.keyspace(keyspace_name) else { return missing() };
    let of_name = |key: &&FunctionKey| key.name == *name;
    let functions: Vec<&FunctionKey> = keyspace.functions.keys().filter(of_name).collect();
    let aggregates: Vec<&FunctionKey> = keyspace.aggregates.keys().filter(of_name).collect();
    if arguments.is_none() && functions.len() + aggregates.len() > 1 {
        let kind = what.to_uppercase();
        return Err(Error::invalid(format!(
            "'DROP {kind} {name}' matches multiple function definitions; specify the argument types by issuing a statement like 'DROP {kind} {name} (type, type, ...)'. You can use cqlsh 'DESCRIBE {kind} {name}' command to find all overloads"
        )));
    }
    let of_kind = if drop.kind == FunctionKind::Scalar { functions } else { aggregates };
    let found = match arguments {
        None => of_kind.first().map(|key| (*key).clone()),
        Some(arguments) => {
            check_not_frozen("Argument", arguments)?;
            let types = arguments.iter().map(|ty| resolve_type(ty, keyspace_name, context.schema));
            let key = FunctionKey::new(name, &types.collect::<Result<Vec<_>>>()?);
            of_kind.contains(&&key).then_some(key)
        }
    };
    let Some(key) = found else { return missing() };
    let keyspace_name = keyspace_name.to_owned();
    let (object, change) = match drop.kind {
        FunctionKind::Aggregate => {
            let types = shown(&keyspace.aggregates[&key].arguments);
            let change = SchemaChange::DropAggregate { keyspace: keyspace_name.clone(), key };
            (Object::Aggregate(name.clone(), types), change)
        }
        FunctionKind::Scalar => {
            check_unused(keyspace, &key, &written)?;
            let types = shown(keyspace.functions[&key].types());
            let change = SchemaChange::DropFunction { keyspace: keyspace_name.clone(), key };
            (Object::Function(name.clone(), types), change)
        }
    };
    Ok(Ddl::step(change, "DROPPED", &keyspace_name, object, Vec::new()))
}

/// Refuses to drop what aggregates are made of.
fn check_unused(keyspace: &Keyspace, key: &FunctionKey, written: &str) -> Result<()> {
    let users = keyspace.aggregates.values().filter(|aggregate| aggregate.uses(key));
    let users: Vec<String> =
        users.map(|aggregate| format!("{}.{}", keyspace.name, aggregate.name)).collect();
    if users.is_empty() {
        return Ok(());
    }
    let users = users.join(", ");
    Err(Error::invalid(format!("Function '{written}' is still referenced by aggregates {users}")))
}

/// The keyspace that a name means, which a user may change.
fn keyspace_of<'n>(context: &DdlContext<'n>, name: &'n QualifiedName) -> Result<&'n str> {
    let named = name.keyspace.as_deref().or(context.keyspace);
    match named.filter(|keyspace| (context.is_system)(keyspace)) {
        Some(system) => {
            Err(Error::invalid(format!("System keyspace '{system}' is not user-modifiable")))
        }
        None => context.keyspace_of(name),
    }
}

fn check_directives(existing: Existing) -> Result<()> {
    if existing.replaced && existing.kept {
        let text = "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives";
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// Refuses `frozen<..>` around what need not say so.
fn check_not_frozen<'t>(what: &str, types: impl IntoIterator<Item = &'t TypeName>) -> Result<()> {
    let is_frozen = |ty: &&TypeName| {
        matches!(ty, TypeName::Frozen(inner)
            if !matches!(**inner, TypeName::Tuple(_) | TypeName::Vector(..)))
    };
    match types.into_iter().find(is_frozen) {
        None => Ok(()),
        Some(ty) => Err(Error::invalid(format!(
            "{what} '{ty}' cannot be frozen; remove frozen<> modifier from '{ty}'"
        ))),
    }
}

/// Bytes of the length before an element of a list, and before the list.
const LENGTH_BYTES: usize = 4;

fn check_limits(name: &str, arguments: usize) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "Function name must be 1 to {NAME_BYTES_MAX} characters long (got {})",
            name.len()
        )));
    }
    if arguments > FUNCTION_ARGUMENTS_MAX {
        return Err(Error::invalid(format!(
            "a function has {arguments} arguments, at most {FUNCTION_ARGUMENTS_MAX} are allowed"
        )));
    }
    Ok(())
}

/// Refuses types of arguments whose names are longer than a key of `system_schema` may be, and one more function or
/// aggregate than a node has; one of the same name and types takes the place of another.
fn check_key(context: &DdlContext<'_>, keyspace: &Keyspace, key: &FunctionKey) -> Result<()> {
    let listed = |name: &String| LENGTH_BYTES + name.len();
    let types_bytes = LENGTH_BYTES + key.arguments.iter().map(listed).sum::<usize>();
    if types_bytes > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the types of the arguments have names of {types_bytes} bytes together, at most {KEY_BYTES_MAX} are allowed"
        )));
    }
    let of_keyspace = |keyspace: &Keyspace| keyspace.functions.len() + keyspace.aggregates.len();
    let all: usize = context.schema.keyspaces().map(|keyspace| of_keyspace(keyspace)).sum();
    let is_there = keyspace.functions.contains_key(key) || keyspace.aggregates.contains_key(key);
    if all >= FUNCTIONS_MAX && !is_there {
        return Err(Error::invalid(format!(
            "a node has at most {FUNCTIONS_MAX} functions and aggregates of users"
        )));
    }
    Ok(())
}

/// A key as errors show it: `ks.f(t, t)`.
fn signature(keyspace: &str, key: &FunctionKey) -> String {
    format!("{keyspace}.{}({})", key.name, key.arguments.join(", "))
}

/// Types as events and rows show them.
fn shown<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> Vec<String> {
    types.into_iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
