//! [`RetryPolicy`]: how often a request is sent and how long to wait in between. Only before the first byte of an answer.

use std::time::Duration;
use throughline_format::{Sha256, UnifiedError, UnifiedId};

/// First wait when the provider gives no advice.
const BASE_WAIT: Duration = Duration::from_millis(500);
/// Longest wait that is chosen without advice.
const MAX_CHOSEN_WAIT: Duration = Duration::from_secs(8);

/// When a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent at most; 1 means that it is never sent again.
    pub attempts: u32,
    /// Longest wait. A provider that asks for a longer one gets no further attempt: the client is told instead.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 2,
            max_wait: Duration::from_secs(20),
        }
    }
}

impl RetryPolicy {
    /// The wait before the next attempt, or `None` when the error goes to the client. `attempt` counts from 1.
    pub fn wait(&self, request_id: &UnifiedId, attempt: u32, error: &UnifiedError) -> Option<Duration> {
        if attempt >= self.attempts || !error.retryable {
            return None;
        }
        let wait = match error.retry_after_ms {
            Some(advice) => Duration::from_millis(advice),
            None => jittered(request_id, attempt).min(self.max_wait),
        };
        (wait <= self.max_wait).then_some(wait)
    }
}

/// Exponential with up to a quarter less, so that requests that failed together do not return together. The spread comes
/// from the request's ID: this crate has no source of randomness.
fn jittered(request_id: &UnifiedId, attempt: u32) -> Duration {
    let full = BASE_WAIT.saturating_mul(1 << attempt.saturating_sub(1).min(8)).min(MAX_CHOSEN_WAIT);
    let digest = Sha256::of_all([request_id.as_str().as_bytes(), &attempt.to_be_bytes()]);
    let spread = u32::from(digest.as_bytes()[0]);
    full.saturating_sub(full / 4 * spread / 255)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_format::ErrorCategory;

    fn error(retryable: bool, advice: Option<u64>) -> UnifiedError {
        UnifiedError {
            retryable,
            retry_after_ms: advice,
            ..UnifiedError::new(ErrorCategory::RateLimit, "provider", "")
        }
    }

    #[test]
    fn advice_bounds_and_attempts() {
        let (policy, id) = (
            RetryPolicy {
                attempts: 3,
                max_wait: Duration::from_secs(5),
            },
            UnifiedId::parse("req_1").unwrap(),
        );
        for (attempt, error, expected) in [
            (1, error(true, Some(2_000)), Some(Duration::from_secs(2))),
            (1, error(true, Some(6_000)), None),
            (1, error(false, Some(1)), None),
            (3, error(true, Some(1)), None),
        ] {
            assert_eq!(policy.wait(&id, attempt, &error), expected);
        }
        for attempt in 1..=2 {
            let full = BASE_WAIT * 2u32.pow(attempt - 1);
            let wait = policy.wait(&id, attempt, &error(true, None)).unwrap();
            assert!(wait <= full && wait >= full * 3 / 4, "{wait:?}");
        }
    }
}
