//! Arguments of the command line.

use std::time::Duration;

pub struct Arguments {
    /// One world, and what happened in it.
    pub seed: Option<u64>,
    pub is_traced: bool,
    first: u64,
    count: u64,
    pub seconds: Option<Duration>,
    /// Worlds that once failed.
    corpus: Vec<u64>,
}

impl Arguments {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self {
            seed: None,
            is_traced: false,
            first: 0,
            count: u64::MAX,
            seconds: None,
            corpus: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| format!("{word} wants a value"));
            let number = |text: String| {
                text.parse::<u64>()
                    .map_err(|_| format!("{text} is not a number"))
            };
            match word.as_str() {
                "--seed" => {
                    found.seed = Some(number(next()?)?);
                    found.count = 0;
                }
                "--trace" => found.is_traced = true,
                "--first" => found.first = number(next()?)?,
                "--count" => found.count = number(next()?)?,
                "--seconds" => found.seconds = Some(Duration::from_secs(number(next()?)?)),
                "--corpus" => {
                    let path = next()?;
                    let text = std::fs::read_to_string(&path);
                    let text = text.map_err(|error| format!("{path}: {error}"))?;
                    let lines = text.lines().filter(|line| !line.starts_with('#'));
                    let seeds = lines.filter_map(|line| line.split_whitespace().next());
                    for seed in seeds {
                        found.corpus.push(number(seed.to_string())?);
                    }
                }
                _ => {
                    return Err(format!(
                        "{word}: there are --seed N [--trace], --first N, --count N, \
                         --seconds N, --corpus FILE"
                    ));
                }
            }
        }
        Ok(found)
    }

    /// Worlds to live through.
    pub fn seeds(&self) -> impl Iterator<Item = u64> {
        let corpus = self.corpus.iter().copied();
        corpus.chain(self.first..self.first.saturating_add(self.count))
    }
}
