//! Places where a sandbox's repository says that its objects are: none of them is asked by the host.

use crate::support::Scene;
use palisade_workspace::Divergence;
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
    scene.send().await;
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
    scene.try_sync(Divergence::Wait).await.unwrap_err();
    assert!(!elsewhere());
    assert_eq!(scene.refs(), "refs/heads/main");
}
