//! The kinds of servers, and how each kind is asked.

pub(crate) mod bucket;
pub(crate) mod hub;
pub(crate) mod keys;
pub(crate) mod opening;
pub(crate) mod own;
pub(crate) mod uploads;
pub(crate) mod web;
