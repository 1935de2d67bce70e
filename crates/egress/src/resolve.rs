//! Names to addresses, on the host. A seam, so that a test can say what a hostile name server would.

use palisade_core::{BoxFuture, HostName};
use std::io;
use std::net::IpAddr;

pub trait Resolve: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The host's own way of looking names up: its hosts file, its name servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|address| address.ip()) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            Ok(addresses)
        })
    }
}
