//! What an image says its programs find in their environment.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::Instance;
use serde_json::{Value, json};

on_engines!(commands_have_the_variables_of_their_image);

fn commands_have_the_variables_of_their_image(method: &'static str) {
    let instance = Instance::with_method(method);
    let engine = Engine::of(method);
    let (host, name) = match method {
        "podman" => ("localhost/", format!("test-variables-{}", std::process::id())),
        _ => ("", format!("test-variables-{}", std::process::id())),
    };
    let body = json!({ "Image": format!("{host}palisade-bash:latest"), "Cmd": ["true"] });
    engine.ask("POST", &format!("/containers/create?name={name}"), &body);
    let changes = "changes=ENV%20GREETING%3Dhello%0AENV%20HOME%3D%2Fx%0AENV%20PATH%3D%2Fspecial%3A%2Fusr%2Fbin%3A%2Fbin";
    engine.ask(
        "POST",
        &format!("/commit?container={name}&repo={host}{name}&tag=latest&{changes}"),
        &json!({}),
    );
    engine.ask("DELETE", &format!("/containers/{name}?force=true"), &Value::Null);
    let environments = instance.user_config().with_file_name("environments");
    std::fs::create_dir_all(&environments).unwrap();
    let manifest = format!("name = \"own\"\ndescription = \"x\"\nimage = \"{name}:latest\"\n");
    std::fs::write(environments.join("own.toml"), manifest).unwrap();

    let script = "echo $GREETING $HOME $PATH";
    let told = "hello /home/agent /special:/usr/bin:/bin\n";
    let run = ["run", "--environment", "own", "--", "sh", "-c", script];
    assert_eq!(instance.run(run).ok().stdout, told);
    instance.run(["create", "--start", "--environment", "own", "box"]).ok();
    assert_eq!(instance.run(["exec", "box", "--", "sh", "-c", script]).ok().stdout, told);
    let said = ["exec", "-e", "GREETING=mine", "-e", "PATH=/bin", "box", "--", "sh", "-c", script];
    assert_eq!(instance.run(said).ok().stdout, "mine /home/agent /bin\n");
    instance.run(["rm", "--force", "box"]).ok();
    engine.ask("DELETE", &format!("/images/{host}{name}:latest"), &Value::Null);
}
