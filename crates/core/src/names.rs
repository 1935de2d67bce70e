//! Tables of names that are a contract with the outside. Each name is written down once, with its meaning, and is a
//! constant as well as a row of the table from which the reference is made.

/// A name and what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    pub name: &'static str,
    pub meaning: &'static str,
}

/// `names!(TABLE: /// Meaning. CONSTANT = "name"; …)` makes the constants and, of all of them, the table.
#[macro_export]
macro_rules! names {
    ($(#[$about:meta])* $table:ident: $($(#[doc = $meaning:literal])+ $constant:ident = $name:literal;)+) => {
        $($(#[doc = $meaning])+ pub const $constant: &str = $name;)+
        $(#[$about])*
        pub const $table: &[$crate::names::Name] =
            &[$($crate::names::Name { name: $name, meaning: concat!($($meaning),+).trim_ascii_start() }),+];
    };
}
