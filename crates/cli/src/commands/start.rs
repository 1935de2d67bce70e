//! `palisade start`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::Enforcement;
use palisade_engine::Started;

/// Start a sandbox
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    start(context, &arguments.name).await?;
    Ok(OK)
}

pub(crate) async fn start(context: &Context, name: &str) -> Result<(), Failure> {
    let row = context.engine.store()?.find(name)?;
    context.announce(row.spec.method);
    context.require_guest()?;
    if context.engine.start(name).await? == Started::Already {
        output::note(&format!("{} is running already", row.name));
        return Ok(());
    }
    note_limits(context, || async {
        let inspection = context.engine.inspect(row.id().as_str()).await?;
        let limits = inspection.running.as_ref().and_then(|running| running.get("limits").cloned());
        Ok(limits.and_then(|limits| serde_json::from_value(limits).ok()).unwrap_or_default())
    })
    .await
}

/// Says once, for this installation, which default limits this machine cannot enforce; `doctor` says it always.
pub(crate) async fn note_limits<F>(context: &Context, limits: impl FnOnce() -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<Vec<Enforcement>, Failure>>,
{
    let marker = context.engine.state_dir().join("limits-noted");
    if marker.as_path().exists() {
        return Ok(());
    }
    let loose: Vec<Enforcement> = limits().await?.into_iter().filter(|limit| !limit.enforced).collect();
    if let Some(first) = loose.first() {
        let names: Vec<&str> = loose.iter().map(|limit| limit.limit.as_str()).collect();
        output::warning(&format!(
            "the default limits on {} are not enforced here: {}",
            names.join(", "),
            first.how
        ));
        output::note("(said once; `palisade doctor` tells more)");
    }
    // Should this fail, it is said again next time.
    let _ = palisade_host::private_file::write(marker, b"");
    Ok(())
}
