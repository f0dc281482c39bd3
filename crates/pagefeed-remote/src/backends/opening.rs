//! Buckets, opened by the clients of their providers.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, StaticCredentialProvider};
use pagefeed_core::error::{Error, Result};

use super::bucket::Objects;
use super::keys::KeyRing;
use crate::address::{Provider, check_web_address};
use crate::options::Options;
use crate::transport::{Connector, once};

/// Builds a bucket with the builder of its provider. Its key has the addresses among
/// the settings, and the settings that identify the account.
macro_rules! built {
    ($builder:ident, $key:ident [$($endpoint:ident)*] [$($other:ident)*], $with_name:ident, $bucket:expr) => {{
        let (name, settings, connector) = $bucket;
        let mut builder = <$builder>::new()
            .with_client_options(ClientOptions::new())
            .with_http_connector(connector)
            .with_retry(once())
            .$with_name(name);
        for (variable, value) in variables() {
            if let Ok(key) = variable.parse::<$key>() {
                builder = builder.with_config(key, value);
            }
        }
        for (setting, value) in settings {
            let key = setting.parse::<$key>().map_err(|_| unknown(setting, name))?;
            builder = builder.with_config(key, value);
        }
        for key in [$($key::$endpoint),*] {
            check_web_address(key.as_ref(), builder.get_config_value(&key).as_deref())?;
        }
        let identifying = [$($key::$endpoint,)* $($key::$other),*];
        let endpoint = identifying.map(|key| builder.get_config_value(&key).unwrap_or_default());
        (builder, endpoint.join(" "))
    }};
}

/// Returns a bucket or container, and text that identifies it among others of its
/// name; for Amazon with the keys of a ring, and in a region that a server named.
pub(crate) fn open(
    options: &Options,
    provider: Provider,
    name: &str,
    connector: Connector,
    keys: Option<Arc<KeyRing>>,
    region: Option<&str>,
) -> Result<(Box<dyn Objects>, String)> {
    let mut settings = options.providers[provider as usize].clone();
    let (name, host) = name.split_once('@').unwrap_or((name, ""));
    if let Some((account, _)) = host.split_once('.') {
        settings.push(("account_name".into(), account.into()));
    }
    let bucket = (name, &settings, connector);
    let failed = |error| cannot_open(name, &error);
    Ok(match provider {
        Provider::Amazon => {
            let (mut builder, endpoint) = built!(
                AmazonS3Builder,
                AmazonS3ConfigKey[Endpoint S3Endpoint][],
                with_bucket_name,
                bucket
            );
            if let Some(keys) = keys {
                builder = builder.with_credentials(keys);
            }
            if let Some(region) = region {
                builder = builder.with_region(region);
            }
            (Box::new(builder.build().map_err(failed)?), endpoint)
        }
        Provider::Google => {
            let (mut builder, endpoint) = built!(
                GoogleCloudStorageBuilder,
                GoogleConfigKey[BaseUrl][],
                with_bucket_name,
                bucket
            );
            // Writes ask for a credential all the same: of this one nothing is sent.
            let skips = builder.get_config_value(&GoogleConfigKey::SkipSignature);
            if skips.as_deref() == Some("true") {
                let nobody = StaticCredentialProvider::new(GcpCredential {
                    bearer: String::new(),
                });
                builder = builder.with_credentials(Arc::new(nobody));
            }
            (Box::new(builder.build().map_err(failed)?), endpoint)
        }
        Provider::Azure => {
            let (builder, endpoint) = built!(
                MicrosoftAzureBuilder,
                AzureConfigKey[Endpoint][AccountName UseEmulator],
                with_container_name,
                bucket
            );
            (Box::new(builder.build().map_err(failed)?), endpoint)
        }
    })
}

/// Environment variables that object_store's builders read, in their spelling of settings.
/// An empty one says nothing: they would take it for a region or an address.
fn variables() -> impl Iterator<Item = (String, String)> {
    let is_read = |name: &str| {
        let own = ["AWS_", "GOOGLE_", "AZURE_"];
        let shared = ["SERVICE_ACCOUNT", "IDENTITY_ENDPOINT"];
        shared.contains(&name) || own.iter().any(|prefix| name.starts_with(prefix))
    };
    std::env::vars_os().filter_map(move |(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_said = is_read(&name) && !value.is_empty();
        is_said.then(|| (name.to_ascii_lowercase(), value))
    })
}

fn cannot_open(name: &str, error: &object_store::Error) -> Error {
    Error::invalid(format!(
        "bucket {name:?} cannot be opened: {error}; check storage_options and the environment \
         variables of the same names"
    ))
}

fn unknown(setting: &str, bucket: &str) -> Error {
    Error::invalid(format!(
        "storage_options has {setting:?}, which is no setting of bucket {bucket:?}: settings are \
         \"endpoint_url\", \"region\", \"access_key_id\", \"secret_access_key\", \"session_token\", \
         \"skip_signature\", of Google \"service_account\", of Azure \"account_name\", \"account_key\"; \
         settings of one provider among several begin with aws_, google_ or azure_"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::transport::Transport;
    use std::time::Duration;

    fn opened(pairs: &[(&str, &str)]) -> Result<(Box<dyn Objects>, String)> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let settings = pairs.iter().map(owned).collect();
        let options = Options {
            deadline: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            providers: [settings, vec![], vec![]],
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("hidden"));
        let transport = Transport::new(&options, Arc::new(Counters::default()))?;
        open(
            &options,
            Provider::Amazon,
            "bucket",
            Connector {
                transport,
                is_near: false,
            },
            None,
            None,
        )
    }

    #[test]
    fn unknown_names_are_told_without_values() {
        let message = opened(&[("sekret", "hidden")]).err().unwrap().to_string();
        assert!(
            message.contains("sekret") && !message.contains("hidden"),
            "{message}"
        );
        assert!(opened(&[("endpoint_url", "http://h"), ("region", "x")]).is_ok());
    }

    #[test]
    fn endpoints_are_web_addresses() {
        for wrong in [
            "",
            "minio.example",
            "127.0.0.1:9000",
            "htp://host",
            "https://user:hidden@host",
            "https://user@host",
            "http://",
        ] {
            let message = opened(&[("endpoint_url", wrong)])
                .err()
                .unwrap()
                .to_string();
            assert!(message.contains("must be a web address"), "{message}");
            assert!(!message.contains("hidden"), "{message}");
        }
    }
}
