//! Settings of a storage: given ones before those of the environment.

mod checks;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use pagefeed_core::error::{Error, Result};

use crate::cache::PageCache;
use crate::counters::Counters;
use checks::{cache_bytes, flag, in_flight, is_true, seconds};

pub(crate) use checks::check_web_address;

/// Seconds until what cannot be read is given up.
const DEADLINE: Duration = Duration::from_secs(60);
/// Seconds of silence after which a request is sent anew.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Requests under way at a time, at most.
const MAX_IN_FLIGHT: usize = 128;

/// Settings that are not of one provider.
const OWN: [&str; 9] = [
    "allow_http",
    "authorization",
    "deadline",
    "hf_endpoint",
    "hf_token",
    "max_in_flight",
    "storage_cache",
    "storage_cache_dir",
    "timeout",
];
/// Names that Python's file systems have for the same settings.
const ALIASES: [(&str, &str); 3] = [
    ("key", "access_key_id"),
    ("secret", "secret_access_key"),
    ("anon", "skip_signature"),
];
/// Settings with these begins are of one provider.
const PREFIXES: [&str; 4] = ["aws_", "azure_", "google_", "hf_"];

/// What was given; the environment is asked when it is needed.
#[derive(Clone, Default)]
pub struct Options {
    given: BTreeMap<String, String>,
    lost: Vec<String>,
    deadline: Option<Duration>,
    timeout: Option<Duration>,
    max_in_flight: Option<usize>,
    cache_bytes: Option<usize>,
}

impl fmt::Debug for Options {
    /// Names alone: values may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.given.keys()).finish()
    }
}

impl Options {
    /// Takes settings; names of providers' settings are checked once one is used.
    pub fn new(given: BTreeMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        for (name, value) in given {
            let name = name.to_ascii_lowercase();
            let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
            let name = alias.map_or(name, |(_, name)| (*name).to_string());
            match name.as_str() {
                "deadline" => options.deadline = Some(seconds(&name, &value)?),
                "timeout" => options.timeout = Some(seconds(&name, &value)?),
                "storage_cache" => options.cache_bytes = Some(cache_bytes(&value)?),
                "max_in_flight" => options.max_in_flight = Some(in_flight(&name, &value)?),
                "allow_http" | "aws_allow_http" => {
                    options.given.insert(name.clone(), flag(&name, &value)?);
                }
                _ => {
                    options.given.insert(name, value);
                }
            }
        }
        Ok(options)
    }

    /// The same, which lacks secrets of these names: they did not travel to this process.
    pub fn without(mut self, lost: Vec<String>) -> Self {
        self.lost = lost;
        self
    }

    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.unwrap_or(DEADLINE)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT).min(self.deadline())
    }

    pub(crate) fn max_in_flight(&self) -> usize {
        self.max_in_flight.unwrap_or(MAX_IN_FLIGHT)
    }

    /// What keeps bytes that were fetched, if it is asked for.
    pub(crate) fn cache(&self, counters: &Arc<Counters>) -> Result<Option<PageCache>> {
        let Some(capacity) = self.cache_bytes else {
            return Ok(None);
        };
        let given = self.given.get("storage_cache_dir").cloned();
        let folder = given
            .or_else(|| variable("PAGEFEED_CACHE_DIR"))
            .ok_or_else(|| {
                Error::invalid(
                    "storage_cache needs a folder on a local disk: give storage_cache_dir, or \
                     set PAGEFEED_CACHE_DIR",
                )
            })?;
        PageCache::new(&folder, capacity as u64, Arc::clone(counters)).map(Some)
    }

    pub(crate) fn allow_http(&self) -> bool {
        let given = self
            .given
            .get("allow_http")
            .or_else(|| self.given.get("aws_allow_http"));
        let value = given.cloned().or_else(|| variable("AWS_ALLOW_HTTP"));
        value.is_some_and(|value| is_true(&value) == Some(true))
    }

    /// `Authorization` for web servers: sent to the server of the URL alone.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.given.get("authorization").map(String::as_str)
    }

    /// Where the hub is.
    pub(crate) fn hub_endpoint(&self) -> String {
        let given = self.given.get("hf_endpoint").cloned();
        let endpoint = given.or_else(|| variable("HF_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| "https://huggingface.co".to_string());
        endpoint.trim_end_matches('/').to_string()
    }

    /// The hub's token: given, of the environment, or left by a login.
    pub(crate) fn hub_token(&self) -> Option<String> {
        let given = self.given.get("hf_token").cloned();
        let known = given.or_else(|| variable("HF_TOKEN")).or_else(|| {
            let home = variable("HF_HOME")
                .or_else(|| Some(format!("{}/.cache/huggingface", variable("HOME")?)))?;
            std::fs::read_to_string(format!("{home}/token")).ok()
        });
        let token = known.map(|token| token.trim().to_string());
        token.filter(|token| !token.is_empty())
    }

    pub(crate) fn amazon(&self) -> Result<AmazonS3Builder> {
        let mut builder = AmazonS3Builder::from_env()
            .with_client_options(ClientOptions::new())
            .with_retry(once());
        for (name, value) in self.of_provider("aws_") {
            let key = name.parse::<AmazonS3ConfigKey>();
            builder = builder.with_config(key.map_err(|_| unknown(name, "S3"))?, value);
        }
        for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
            check_web_address(key.as_ref(), builder.get_config_value(&key))?;
        }
        Ok(builder)
    }

    pub(crate) fn google(&self) -> Result<GoogleCloudStorageBuilder> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_client_options(ClientOptions::new())
            .with_retry(once());
        for (name, value) in self.of_provider("google_") {
            let key = name.parse::<GoogleConfigKey>();
            builder = builder.with_config(key.map_err(|_| unknown(name, "GCS"))?, value);
        }
        Ok(builder)
    }

    pub(crate) fn azure(&self) -> Result<MicrosoftAzureBuilder> {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_client_options(ClientOptions::new())
            .with_retry(once());
        for (name, value) in self.of_provider("azure_") {
            let key = name.parse::<AzureConfigKey>();
            builder = builder.with_config(key.map_err(|_| unknown(name, "Azure"))?, value);
        }
        let key = AzureConfigKey::Endpoint;
        check_web_address(key.as_ref(), builder.get_config_value(&key))?;
        Ok(builder)
    }

    fn of_provider(&self, prefix: &'static str) -> impl Iterator<Item = (&String, &String)> {
        self.given.iter().filter(move |(name, _)| {
            let other = PREFIXES.iter().any(|p| *p != prefix && name.starts_with(p));
            !other && !OWN.contains(&name.as_str())
        })
    }
}

/// Attempts are counted in one place, see `retry`.
fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

fn unknown(name: &str, provider: &str) -> Error {
    Error::invalid(format!(
        "storage_options has {name:?}, which is no setting of {provider}: such are \
         \"endpoint_url\", \"region\", \"skip_signature\"; settings of one provider among several \
         begin with aws_, google_ or azure_; {OWN:?} are of all"
    ))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Options::new(pairs.iter().map(owned).collect())
    }

    #[test]
    fn names_of_other_libraries_are_known() {
        let given =
            options(&[("key", "id"), ("secret", "s"), ("endpoint_url", "http://h")]).unwrap();
        let builder = given.amazon().unwrap();
        let value = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId);
        assert_eq!(value.as_deref(), Some("id"));
    }

    #[test]
    fn unknown_names_are_told_without_values() {
        let given = options(&[("sekret", "hidden")]).unwrap();
        let message = given.amazon().unwrap_err().to_string();
        assert!(
            message.contains("sekret") && !message.contains("hidden"),
            "{message}"
        );
        assert!(!format!("{given:?}").contains("hidden"));
        let other = options(&[("google_bearer_token", "x")]).unwrap();
        assert!(other.amazon().is_ok(), "it is of another provider");
    }

    #[test]
    fn endpoints_are_web_addresses() {
        for wrong in [
            "",
            "minio.example",
            "127.0.0.1:9000",
            "htp://host",
            "http://",
        ] {
            let given = options(&[("endpoint_url", wrong)]).unwrap();
            let message = given.amazon().unwrap_err().to_string();
            assert!(message.contains("must be a web address"), "{message}");
        }
        let given = options(&[("endpoint_url", "http://127.0.0.1:9000/")]).unwrap();
        assert!(given.amazon().is_ok());
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(
            options(&[("deadline", "2.5")]).unwrap().deadline(),
            Duration::from_millis(2500)
        );
        for (name, value) in [
            ("deadline", "-1"),
            ("timeout", "soon"),
            ("max_in_flight", "0"),
            ("max_in_flight", "1000000000"),
            ("storage_cache", "200"),
            ("allow_http", "ture"),
        ] {
            let message = options(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
