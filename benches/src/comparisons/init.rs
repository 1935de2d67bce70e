//! Onboarding: how long it takes to find out whether anything is missing.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::repository::Repository;
use crate::scene::Scene;

const SERVICES: u32 = 100;

/// `init --check` of a compose file of a hundred services, each with two ports, three variables and two files that git
/// ignores. All of it is declared, so that the command succeeds; it is looked for all the same.
pub(super) fn check(scene: &Scene) -> Result<Sides> {
    let repository = Repository::make(scene, "onboarded")?;
    let put = |path: &str, text: String| {
        std::fs::write(repository.path().join(path), text).map_err(Failure::io(format!("write {path}")))
    };
    let services: String = (0..SERVICES).map(service).collect();
    put("compose.yaml", format!("services:\n{services}"))?;
    put(".gitignore", "*.local.yaml\n*.env\n".to_owned())?;
    let palisade = scene.palisade()?.at(repository.path());
    palisade.clone().args(["init", "--apply", "--method", "bwrap"]).check()?;
    let check = palisade.args(["init", "--check"]);
    Ok(Sides { ours: Box::new(move || check.time()), peer: None })
}

fn service(number: u32) -> String {
    let (port, metrics) = (10_000 + number, 20_000 + number);
    format!(
        "  service-{number}:
    image: shop/service:${{TAG:-latest}}
    container_name: service-{number}
    ports:
      - \"{port}:80\"   # web
      - {{target: 90, published: {metrics}}}
    environment:
      DATABASE_URL: postgres://app:${{PASSWORD_{number}}}@db/app
      LEVEL: ${{LEVEL_{number}:-info}}
      TOKEN_{number}:
    env_file: service-{number}.env
    volumes:
      - ./service-{number}.local.yaml:/app/config.yaml:ro
      - data:/data
"
    )
}
