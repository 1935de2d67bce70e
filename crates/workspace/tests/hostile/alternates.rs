//! Places where a sandbox's repository says that its objects are: none of them is asked by the host.

use crate::assert_refs;
use crate::support::Scene;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Serves the files below a directory, and remembers what it was asked for.
fn server(root: PathBuf) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    // It ends with the test's process.
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
            let path = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned()));
            let Some(path) = path else { continue };
            lines.find(String::is_empty);
            let path = path.split('?').next().unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, content) = match std::fs::read(root.join(&path)) {
                Ok(content) => ("200 OK", content),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            seen.lock().unwrap().push(path);
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                content.len()
            );
            let _ = client.write_all(&[head.as_bytes(), &content].concat());
        }
    });
    (port, asked)
}

#[tokio::test]
async fn an_alternate_that_is_an_address_is_not_asked() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo work > code && git commit -qam work && git update-server-info");
    let (port, asked) = server(scene.path("."));
    scene.write(
        "inside/.git/objects/info/http-alternates",
        &format!("http://127.0.0.1:{port}/elsewhere/objects\n"),
    );
    scene.inside(
        "id=$(git rev-parse HEAD:code); rm -f .git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)",
    );
    scene.host("git config http.followRedirects true");
    let elsewhere =
        || std::mem::take(&mut *asked.lock().unwrap()).iter().any(|path| path.starts_with("elsewhere/"));

    scene.plain(&format!("git fetch -q http://127.0.0.1:{port}/inside/.git main"));
    assert!(elsewhere(), "the control");
    let refused = scene.sync().await.0.archived.main.refused;
    assert!(matches!(&refused[..], [refused] if refused.what.describe() == "branch main"), "{refused:?}");
    assert!(!elsewhere());
    assert_refs(&scene, &["refs/heads/main"]);
}

/// Inside, the path leads nowhere; to host git that read it, it would be the user's.
#[tokio::test]
async fn an_alternate_that_is_a_directory_of_the_hosts_is_not_read_by_the_host() {
    let scene = Scene::new();
    scene.host("git init -q ../private; cd ../private; echo secret > secret; git add -A; git -c user.name=a -c user.email=a@b commit -qm secret");
    scene.start().await;
    let secret = scene.host("git -C ../private rev-parse HEAD");
    scene.inside(&format!("mkdir -p .git/objects/info; echo {} > .git/objects/info/alternates; git update-ref refs/heads/stolen {secret}", scene.path("private/.git/objects").display()));
    scene.plain("git fetch -q ../inside stolen && git show FETCH_HEAD:secret > ../plain-secret");
    assert_eq!(
        scene.read("plain-secret"),
        "secret\n",
        "the control: git that reads the sandbox's repository itself"
    );

    // Inside a sandbox, no such directory is there.
    scene.inside("echo work > code; git commit -qam work");
    let mut scene = scene;
    scene.replace_inside_git(
        "pack-objects",
        "mv ../private ../away; git \"$@\"; code=$?; mv ../away ../private; exit $code",
    );
    let synced = scene.sync().await;
    let refused: Vec<String> = synced.0.archived.main.refused.iter().map(|it| it.what.describe()).collect();
    assert_eq!(refused, ["branch stolen"]);
    assert_refs(&scene, &["refs/heads/main"]);
}
