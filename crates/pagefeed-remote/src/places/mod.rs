//! The kinds of servers: what a URL means, and how each kind is asked.

pub(crate) mod address;
pub(crate) mod bucket;
pub(crate) mod hub;
pub(crate) mod keys;
pub(crate) mod uploads;
pub(crate) mod web;
