//! The gateway: what clients reach over HTTP, and the configuration behind it.
//!
//! What it is: inbound protocols ([`http`]), the native API, client authentication ([`auth`]), the configuration file
//! ([`config`]), routes ([`routing`]), the built-in upstreams of the demo ([`demo`]) and the whole process as one value
//! ([`server`]). What it must never do: write wire JSON by hand (codecs do; the models lists and the native API are serde
//! types), touch SQL, store or print a credential, or let a client's connection decide about an operation's life.
//!
//! Where to start reading: [`server`] (what a running gateway consists of), then [`http`].

#![forbid(unsafe_code)]

pub mod auth;
pub mod config;
mod connections;
pub mod data_dir;
pub mod demo;
pub mod glob;
pub mod http;
pub mod routing;
pub mod server;
pub mod system;
