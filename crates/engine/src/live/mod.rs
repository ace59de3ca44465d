//! Live streams: one producer, any number of subscribers, the committed sequence as the only truth.
//!
//! A subscriber is a cursor. It reads from the operation's ring of recent committed events, or from the store when the ring
//! has moved on, up to the committed head; then it waits for the head to move. Replay joins live without a seam because
//! both are the same read. Attaching and detaching write nothing, and there is no queue per subscriber that could overflow.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod model;
mod publisher;
mod subscription;

pub(crate) use publisher::{CancelRequest, Live, Publishers, StopCause};
pub use subscription::{Delivery, Subscription};
