//! What a service is for, guessed from its image and its name: for people to read, and to find the one whose health is
//! asked for. Nothing depends on a right guess.

use crate::compose::Service;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Api,
    Web,
    Database,
    Cache,
    Queue,
    Proxy,
    Mail,
    Storage,
    Telemetry,
    Unknown,
}

/// Words of an image's or a service's name. An image says more than a name that somebody chose.
const WORDS: &[(Role, &[&str])] = &[
    (
        Role::Database,
        &[
            "postgres",
            "postgresql",
            "postgis",
            "timescaledb",
            "pgvector",
            "mysql",
            "mariadb",
            "percona",
            "mongo",
            "mongodb",
            "cockroach",
            "cassandra",
            "clickhouse",
            "couchdb",
            "neo4j",
            "mssql",
            "elasticsearch",
            "opensearch",
            "meilisearch",
            "qdrant",
            "weaviate",
            "db",
            "database",
        ],
    ),
    (Role::Cache, &["redis", "valkey", "memcached", "keydb", "dragonfly", "cache"]),
    (Role::Queue, &["rabbitmq", "kafka", "redpanda", "nats", "activemq", "mosquitto", "zookeeper", "queue"]),
    (Role::Mail, &["mailhog", "mailpit", "maildev", "mail", "smtp"]),
    (Role::Storage, &["minio", "localstack", "azurite", "seaweedfs"]),
    (
        Role::Telemetry,
        &["jaeger", "prometheus", "grafana", "loki", "tempo", "otel", "zipkin", "opentelemetry"],
    ),
    (Role::Proxy, &["traefik", "haproxy", "envoy", "caddy", "proxy"]),
    (Role::Api, &["api", "backend", "server", "graphql", "gateway"]),
    (Role::Web, &["web", "frontend", "ui", "site", "nginx", "app", "www"]),
];

impl Role {
    pub fn of(service: &Service) -> Self {
        let image = service.image.as_deref().map(image_name).unwrap_or_default();
        [image, service.name.as_str()].into_iter().find_map(guess).unwrap_or(Role::Unknown)
    }

    /// Nothing for a service of which nothing is known.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Role::Api => "API",
            Role::Web => "web",
            Role::Database => "database",
            Role::Cache => "cache",
            Role::Queue => "queue",
            Role::Proxy => "proxy",
            Role::Mail => "mail",
            Role::Storage => "storage",
            Role::Telemetry => "telemetry",
            Role::Unknown => return None,
        })
    }

    /// How likely it is this service that answers for the whole project over HTTP; less is likelier.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Role::Api => 0,
            Role::Web => 1,
            Role::Unknown => 2,
            Role::Proxy => 3,
            Role::Mail | Role::Storage | Role::Telemetry => 4,
            Role::Database | Role::Cache | Role::Queue => 5,
        }
    }
}

/// `registry.example:5000/team/postgres:16` is called `team/postgres`.
fn image_name(image: &str) -> &str {
    let path = match image.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) => path,
        _ => image,
    };
    path.split([':', '@']).next().unwrap_or(path)
}

fn guess(name: &str) -> Option<Role> {
    let words: Vec<String> =
        name.split(|it: char| !it.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect();
    WORDS
        .iter()
        .find(|(_, known)| words.iter().any(|word| known.contains(&word.as_str())))
        .map(|(role, _)| *role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::ComposeFile;

    #[test]
    fn services_are_known_by_their_image_and_then_by_their_name() {
        for (name, image, expected) in [
            ("api", "team/shop:1", Role::Api),
            ("postgres", "postgres:16", Role::Database),
            ("store", "example.org:5000/team/postgres@sha256:0", Role::Database),
            ("api-cache", "redis:7", Role::Cache),
            ("my_frontend", "${IMAGE}", Role::Web),
            ("store", "mcr.example/mssql/server:2022", Role::Database),
            ("worker", "shop", Role::Unknown),
        ] {
            let text = format!("services: {{{name}: {{image: \"{image}\"}}}}\n");
            let service = ComposeFile::read(text).unwrap().services.remove(0);
            assert_eq!(Role::of(&service), expected, "{name} {image}");
        }
    }
}
