//! What happened in a run.

macro_rules! figures {
    ($($name:ident),* $(,)?) => {
        /// What happened, so that a run in which nothing does is seen.
        #[derive(Clone, Debug, Default)]
        pub struct Figures {
            $(pub $name: u64,)*
            pub digest: [u8; 32],
        }

        impl Figures {
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }

            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

figures!(
    turns,
    completed,
    interrupted,
    resumed,
    rejoined,
    direct,
    forgotten,
    torn,
    cancelled,
    switched,
    forked,
    crashed,
    compacted,
    removed,
    returned,
    reattached,
    queued,
    waited,
    ran,
    decided,
    repeated,
    contradicted,
    too_late,
    held,
    brought,
    stray,
);
