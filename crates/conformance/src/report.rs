//! What a run tells.

use crate::case::Case;

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is true.
    Pass,
    /// It is not, and why.
    Fail(String),
    /// It could not be run, and why. This is no pass.
    NotRun(String),
}

/// One check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The words that it stands for.
    pub say: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// One case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// Its name.
    pub id: String,
    /// Its checks in order.
    pub checks: Vec<CheckReport>,
}

impl CaseReport {
    /// The same verdict for every check.
    pub(crate) fn of_every_check(case: &Case, verdict: &Verdict) -> Self {
        let checks = case.checks().map(|(say, _)| CheckReport {
            say: say.to_owned(),
            verdict: verdict.clone(),
        });
        Self {
            id: case.id.clone(),
            checks: checks.collect(),
        }
    }

    /// Checks that fail, with their reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|c| match &c.verdict {
            Verdict::Fail(why) => Some((c.say.as_str(), why.as_str())),
            Verdict::Pass | Verdict::NotRun(_) => None,
        })
    }

    /// Checks that were not run, with their reasons.
    pub fn not_run(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|c| match &c.verdict {
            Verdict::NotRun(why) => Some((c.say.as_str(), why.as_str())),
            Verdict::Pass | Verdict::Fail(_) => None,
        })
    }

    /// Whether there are checks and every one of them passes.
    pub fn holds(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|c| c.verdict == Verdict::Pass)
    }
}

impl std::fmt::Display for CaseReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.id)?;
        for check in &self.checks {
            match &check.verdict {
                Verdict::Pass => writeln!(f, "  pass     {}", check.say)?,
                Verdict::Fail(why) => writeln!(f, "  FAIL     {}\n           {why}", check.say)?,
                Verdict::NotRun(why) => writeln!(f, "  not run: {why}\n           {}", check.say)?,
            }
        }
        Ok(())
    }
}
