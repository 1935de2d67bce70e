//! The order and the reasons of making, against an engine that only remembers.

use super::*;
use crate::recipe::with_parents;
use palisade_core::{BackendError, Method};
use std::cell::{Cell, RefCell};
use std::path::Path;

#[derive(Default)]
struct Remembering {
    images: RefCell<HashMap<String, FoundImage>>,
    /// What was asked for, in words.
    asked: RefCell<Vec<String>>,
    ids: Cell<usize>,
    /// Whether there is a registry.
    registry: bool,
    /// What a build says, and how it fails.
    failure: Option<(&'static str, &'static str)>,
}

impl Remembering {
    fn put(&self, image: &str, labels: HashMap<String, String>) {
        self.ids.set(self.ids.get() + 1);
        let id = format!("id{}", self.ids.get());
        self.images.borrow_mut().insert(image.to_owned(), FoundImage { id, labels });
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.borrow_mut())
    }
}

impl ImageEngine for Remembering {
    async fn find(&self, image: &str) -> Result<Option<FoundImage>, BackendError> {
        Ok(self.images.borrow().get(image).cloned())
    }

    async fn pull(&self, image: &str) -> Result<(), BackendError> {
        self.asked.borrow_mut().push(format!("pull {image}"));
        if !self.registry {
            return Err(BackendError::Unavailable {
                method: Method::Docker,
                reason: "no registry".into(),
                fix: "none".into(),
            });
        }
        self.put(image, HashMap::new());
        Ok(())
    }

    async fn import(&self, root: &Path, image: &str) -> Result<(), BackendError> {
        let name = root.file_name().unwrap().to_string_lossy().into_owned();
        self.asked.borrow_mut().push(format!("import {} as {image}", &name[..11]));
        self.put(image, HashMap::new());
        Ok(())
    }

    async fn build(&self, build: Build, said: &mut dyn FnMut(&str)) -> Result<(), BuildFailure> {
        self.asked.borrow_mut().push(format!("build {} on {}", build.image, build.base));
        if let Some((line, error)) = self.failure {
            said(line);
            return if error.is_empty() { Ok(()) } else { Err(BuildFailure::Step(error.into())) };
        }
        self.put(&build.image, build.labels);
        Ok(())
    }

    async fn discard(&self, id: &str) {
        self.asked.borrow_mut().push(format!("discard {id}"));
    }
}

fn request(names: &[&str]) -> Request {
    let recipes: Vec<&Recipe> = names.iter().map(|name| recipe(name).unwrap()).collect();
    Request {
        recipes: with_parents(&recipes),
        base: None,
        certificates: Certificates::default(),
        proxies: Vec::new(),
        cache: "/nonexistent".into(),
        reuse: Reuse::Allowed,
    }
}

async fn outcomes(engine: &Remembering, request: &Request) -> Vec<Outcome> {
    make(engine, request, &mut |_| {}).await.unwrap().iter().map(|made| made.outcome).collect()
}

#[tokio::test]
async fn an_image_is_made_upon_its_parents_and_only_once() {
    let engine = Remembering { registry: true, ..Remembering::default() };
    let request = request(&["bash"]);
    assert_eq!(outcomes(&engine, &request).await, [Outcome::Built, Outcome::Built]);
    assert_eq!(
        engine.take_asked(),
        [
            "pull debian:trixie-slim",
            "build palisade-base:latest on debian:trixie-slim",
            "build palisade-bash:latest on palisade-base:latest"
        ]
    );
    assert_eq!(outcomes(&engine, &request).await, [Outcome::Current, Outcome::Current]);
    assert_eq!(engine.take_asked(), Vec::<String>::new());
}

#[tokio::test]
async fn new_certificates_make_everything_anew_and_discard_the_old() {
    let engine = Remembering { registry: true, ..Remembering::default() };
    outcomes(&engine, &request(&["bash"])).await;
    engine.take_asked();
    let certificates = Certificates::new([("ours.crt".to_owned(), b"A".to_vec())]);
    let changed = Request { certificates, ..request(&["bash"]) };
    assert_eq!(outcomes(&engine, &changed).await, [Outcome::Built, Outcome::Built]);
    assert_eq!(
        engine.take_asked(),
        [
            "build palisade-base:latest on debian:trixie-slim",
            "discard id2",
            "build palisade-bash:latest on palisade-base:latest",
            "discard id3"
        ]
    );
}

#[tokio::test]
async fn a_parent_that_was_made_anew_makes_its_children_anew() {
    let engine = Remembering { registry: true, ..Remembering::default() };
    outcomes(&engine, &request(&["bash", "node"])).await;
    engine.images.borrow_mut().get_mut("palisade-base:latest").unwrap().id = "another".into();
    assert_eq!(
        outcomes(&engine, &request(&["bash"])).await,
        [Outcome::Current, Outcome::Built],
        "the base is as its recipe says, but not what bash was made on"
    );
}

#[tokio::test]
async fn without_a_registry_a_debian_of_our_own_is_used() {
    let cache = tempfile::tempdir().unwrap();
    let plan = RootPlan::new(&Sources::of_machine().await);
    std::fs::write(plan.file(cache.path()), b"an archive").unwrap();
    let engine = Remembering::default();
    let request = Request { cache: cache.path().into(), ..request(&["base"]) };
    assert_eq!(outcomes(&engine, &request).await, [Outcome::Built]);
    assert_eq!(
        engine.take_asked(),
        [
            "pull debian:trixie-slim",
            "import root-trixie as palisade-root:latest",
            "build palisade-base:latest on palisade-root:latest"
        ]
    );
}

#[tokio::test]
async fn a_base_that_the_user_names_is_the_only_one_tried() {
    let engine = Remembering::default();
    let request = Request { base: Some("my-debian".into()), ..request(&["base"]) };
    let error = make(&engine, &request, &mut |_| {}).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot build my-debian: "), "{error}");
    assert_eq!(engine.take_asked(), ["pull my-debian"]);
}

#[tokio::test]
async fn nothing_is_built_upon_what_failed_and_control_characters_are_escaped() {
    let failure = Some(("apt says\x1b[2J", "it returned 100"));
    let engine = Remembering { registry: true, failure, ..Remembering::default() };
    let mut lines = Vec::new();
    let error = make(&engine, &request(&["bash"]), &mut |event| {
        if let Event::Said { line } = event {
            lines.push(line.to_owned());
        }
    })
    .await
    .unwrap_err();
    assert_eq!(error.to_string(), "cannot build palisade-base:latest: it returned 100");
    assert_eq!(lines, ["apt says\\u{1b}[2J"]);
    assert_eq!(engine.take_asked().len(), 2, "one pull, one build");
}

#[tokio::test]
async fn an_engine_that_ends_a_failed_build_like_a_good_one_is_not_believed() {
    let failure = Some(("E: Unable to locate package", ""));
    let engine = Remembering { registry: true, failure, ..Remembering::default() };
    let error = make(&engine, &request(&["base"]), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot build palisade-base:latest: E: Unable to locate package");
}
