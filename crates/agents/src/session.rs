//! What a session inside is started with: the variables of its working tree, and for an agent its own and its login's.

use crate::error::AgentError;
use crate::inside::run_inside;
use crate::login::Signed;
use crate::profile::Profile;
use crate::service::record;
use crate::start::Step;
use crate::surroundings::Surroundings;
use palisade_core::{Layout, Secret};
use palisade_engine::Connection;

/// The variables of an agent, of which the last one of a name counts, and in its home the files that keep it from asking at its first start.
///
/// From weak to strong: what is set on the host under the login's names, what the files of the working tree say, what the
/// profile sets, and where the user said that the login comes from.
pub async fn settle(
    connection: &Connection,
    layout: &Layout,
    profile: &Profile,
    signed: &Signed,
    tell: &mut dyn FnMut(Step),
) -> Result<Vec<(String, Secret)>, AgentError> {
    let load = record(&connection.row)?.map(|record| record.env_load).unwrap_or_default();
    let surroundings = Surroundings::load(connection, layout, &load).await?;
    let mut variables = signed.inherited.clone();
    variables.extend(own(&surroundings));
    variables
        .extend(profile.environment.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))));
    variables.extend(signed.referenced.iter().cloned());
    tell(Step::Loaded(surroundings));
    let last = |name: &str| {
        let found = variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, secret)| secret.expose().to_owned())
    };
    for file in profile.home_for(&last) {
        let (words, text) = ([file.path.clone()], file.rendered(&last));
        let script = include_str!("home.sh");
        let secret = [("palisade_text", text.as_str())];
        run_inside(connection, &connection.layout, "writing the agent's settings", script, &words, &secret)
            .await?;
    }
    Ok(variables)
}

/// The variables of a session beside the agent's, in the main working tree; none where no agent works.
pub async fn session_variables(connection: &Connection) -> Result<Vec<(String, Secret)>, AgentError> {
    match record(&connection.row)? {
        None => Ok(Vec::new()),
        Some(record) => {
            let surroundings = Surroundings::load(connection, &connection.layout, &record.env_load).await?;
            tracing::debug!(loader = ?surroundings.loader, variables = surroundings.count(), "env files");
            Ok(own(&surroundings).collect())
        }
    }
}

fn own(surroundings: &Surroundings) -> impl Iterator<Item = (String, Secret)> {
    surroundings.variables.iter().map(|(name, value)| (name.to_string(), Secret::new(value.clone())))
}
