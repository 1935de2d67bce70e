//! A backend that does nothing but remember what it was asked, and fails or hangs where a test wants it to.

use palisade_core::{
    Backend, BackendError, BoxFuture, Capabilities, Capability, Foundation, HostIdentity, HostPath,
    HostUsers, Lasting, Layout, Leftover, LeftoverLabels, Liveness, Method, Policy, Preflight, SandboxDir,
    SandboxId, SandboxName, SandboxSpec, Stream,
};
use palisade_engine::{
    ArchiveCause, ArchivedWork, BackendProvider, Connection, CreateRequest, Engine, EngineConfig,
    UnsavedReport, UnsavedWork, WorkError,
};
use palisade_host::process;
use palisade_protocol::frame::MAX_FROM_HOST;
use palisade_protocol::{Decoder, Hello, Kind, VERSION, Welcome};
use palisade_store::{NewSandbox, ProcessIdentity, Row, Store};
use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Fail,
    Hang,
}

#[derive(Default)]
pub(crate) struct Fake {
    calls: Mutex<Vec<String>>,
    /// Of a call, or of a call for one sandbox: `stop`, `stop web`. `handshake` is the guest's own.
    faults: Mutex<Vec<(String, Fault)>>,
    leftovers: Mutex<Vec<Leftover>>,
    capabilities: Mutex<Vec<Capability>>,
    pub(crate) used: std::sync::atomic::AtomicBool,
    guests: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    /// What it says of whether a sandbox runs.
    pub(crate) ended: std::sync::atomic::AtomicBool,
    /// Ends of streams to guests that say nothing.
    silent: Mutex<Vec<DuplexStream>>,
}

impl Fake {
    /// What was asked since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) fn fault(&self, call: &str, fault: Fault) {
        self.faults.lock().unwrap().push((call.into(), fault));
    }

    pub(crate) fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }

    pub(crate) fn leave(&self, key: &str, sandbox: Option<(SandboxId, Lasting)>) {
        self.leave_as(key, sandbox, false, None);
    }

    /// As [`Fake::leave`], of something in which processes run, or that says what it belongs to.
    pub(crate) fn leave_as(
        &self,
        key: &str,
        sandbox: Option<(SandboxId, Lasting)>,
        is_running: bool,
        says: Option<LeftoverLabels>,
    ) {
        let leftover = Leftover::of_process(format!("thing {key}"), key.into());
        self.leftovers.lock().unwrap().push(Leftover { sandbox, is_running, says, ..leftover });
    }

    /// Cuts the connections to all guests.
    pub(crate) fn cut(&self) {
        self.guests.lock().unwrap().drain(..).for_each(|guest| guest.abort());
    }

    /// From now on it is an engine: sandboxes outlive their keepers.
    pub(crate) fn become_engine(&self) {
        self.capabilities.lock().unwrap().push(Capability::OutlivesKeeper);
    }

    fn fault_of(&self, call: &str, name: &str) -> Option<Fault> {
        let whole = format!("{call} {name}");
        let faults = self.faults.lock().unwrap();
        faults.iter().find(|(place, _)| *place == call || *place == whole).map(|(_, fault)| *fault)
    }

    async fn asked(&self, call: &str, spec: &SandboxSpec) -> Result<(), BackendError> {
        let name = spec.name.as_ref().map_or("a run", SandboxName::as_str);
        self.calls.lock().unwrap().push(format!("{call} {name}"));
        match self.fault_of(call, name) {
            None => Ok(()),
            Some(Fault::Fail) => Err(BackendError::Io {
                what: format!("{call} {name}"),
                source: std::io::Error::other("no luck"),
            }),
            Some(Fault::Hang) => std::future::pending().await,
        }
    }
}

/// A guest that welcomes whoever says hello, and leaves when it is told to or its stream ends.
async fn polite_guest(mut stream: DuplexStream) {
    let mut decoder = Decoder::new(MAX_FROM_HOST);
    loop {
        while let Some(frame) = decoder.next_frame().unwrap() {
            match frame.kind {
                Kind::Hello => {
                    let nonce = Hello::decode(&frame.payload).unwrap().nonce;
                    let mut bytes = Vec::new();
                    Welcome { version: VERSION, nonce, build: "fake".into() }.frame().encode(&mut bytes);
                    stream.write_all(&bytes).await.unwrap();
                }
                Kind::Shutdown => return,
                _ => {}
            }
        }
        if !matches!(stream.read_buf(decoder.spare()).await, Ok(1..)) {
            return;
        }
    }
}

impl Backend for Fake {
    fn method(&self) -> Method {
        Method::Bwrap
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities(self.capabilities.lock().unwrap().clone())
    }

    fn preflight(&self) -> BoxFuture<'_, Preflight> {
        Box::pin(async { Preflight { method: Method::Bwrap, checks: Vec::new() } })
    }

    fn host_users(&self) -> BoxFuture<'_, HostUsers> {
        Box::pin(std::future::ready(HostUsers::Given("the fake's".into())))
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async {
            std::fs::create_dir_all(spec.dir.as_ref().unwrap().path()).unwrap();
            self.asked("create", spec).await
        })
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.asked("start", spec))
    }

    fn connect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Stream, BackendError>> {
        Box::pin(async {
            self.asked("connect", spec).await?;
            let (near, far) = duplex(64 * 1024);
            match self.fault_of("handshake", "") {
                None => self.guests.lock().unwrap().push(tokio::spawn(polite_guest(far))),
                Some(Fault::Fail) => drop(far),
                Some(Fault::Hang) => self.silent.lock().unwrap().push(far),
            }
            Ok(Box::new(near) as Stream)
        })
    }

    fn stop<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.asked("stop", spec))
    }

    fn remove<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async {
            self.asked("remove", spec).await?;
            let _ = std::fs::remove_dir_all(spec.dir.as_ref().unwrap().path());
            Ok(())
        })
    }

    fn layout(&self, _spec: &SandboxSpec) -> Layout {
        Layout {
            workspace: "/".into(),
            directory: "/".into(),
            home: "/".into(),
            user: "agent".into(),
            guest: "/.palisade/guest".into(),
            objects: None,
            environment: Vec::new(),
        }
    }

    fn explain<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, BackendError> {
        Box::pin(async {
            BackendError::Unavailable {
                method: Method::Bwrap,
                reason: "the guest says nothing".into(),
                fix: "talk to it".into(),
            }
        })
    }

    fn inspect<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Liveness, BackendError>> {
        Box::pin(async {
            let running = !self.ended.load(std::sync::atomic::Ordering::Relaxed);
            match self.fault_of("inspect", "") {
                None => Ok(Liveness { running, detail: None, limits: Vec::new() }),
                Some(Fault::Fail) => Err(BackendError::Unavailable {
                    method: Method::Bwrap,
                    reason: "nobody answers".into(),
                    fix: "start it".into(),
                }),
                Some(Fault::Hang) => std::future::pending().await,
            }
        })
    }

    fn use_note(&self) -> Option<HostPath> {
        let used = self.used.load(std::sync::atomic::Ordering::Relaxed);
        used.then(|| HostPath::new("/state/used").unwrap())
    }

    fn leftovers<'a>(&'a self, _owner: &'a str) -> BoxFuture<'a, Result<Vec<Leftover>, BackendError>> {
        Box::pin(async {
            match self.fault_of("leftovers", "") {
                None => Ok(self.leftovers.lock().unwrap().clone()),
                Some(_) => Err(BackendError::Unavailable {
                    method: Method::Bwrap,
                    reason: "nobody answers".into(),
                    fix: "start it".into(),
                }),
            }
        })
    }

    fn discard<'a>(&'a self, leftover: &'a Leftover) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(format!("discard {}", leftover.key));
            self.leftovers.lock().unwrap().retain(|known| known != leftover);
            Ok(())
        })
    }
}

struct Provider(Arc<Fake>);

impl BackendProvider for Provider {
    fn backend(&self, _method: Method) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(self.0.clone())
    }

    fn all(&self) -> Vec<Arc<dyn Backend>> {
        vec![self.0.clone()]
    }
}

/// A state directory, a backend, and as many engines on them as a test wants processes.
pub(crate) struct Scene {
    pub(crate) fake: Arc<Fake>,
    state: tempfile::TempDir,
}

/// Sandboxes without any work.
struct NoWork;

impl UnsavedWork for NoWork {
    fn concerns(&self, _sandbox: &Row) -> bool {
        false
    }

    fn is_agent_session(&self, _session: &str) -> bool {
        false
    }

    fn has_working_agent(&self, _sandbox: &Row) -> bool {
        false
    }

    fn list<'a>(&'a self, _connection: &'a Connection) -> BoxFuture<'a, Result<UnsavedReport, WorkError>> {
        Box::pin(async { Ok(UnsavedReport::default()) })
    }

    fn archive<'a>(
        &'a self,
        _connection: &'a Connection,
        _cause: ArchiveCause,
    ) -> BoxFuture<'a, Result<ArchivedWork, WorkError>> {
        Box::pin(async { Ok(ArchivedWork::default()) })
    }

    fn unpublished<'a>(
        &'a self,
        _connection: &'a Connection,
    ) -> BoxFuture<'a, Result<Vec<String>, WorkError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        Self { fake: Arc::default(), state }
    }

    /// An engine whose keepers are a shell script, which gets the sandbox's id as `$1` and `$REPORT`.
    pub(crate) fn engine_with(&self, keeper: &str) -> Engine {
        let report = self.report();
        Engine::new(EngineConfig {
            state: HostPath::new(self.state.path()).unwrap(),
            uid_base: 200_000,
            uid_registry: self.state.path().join("uid-registry"),
            keeper_command: ["/bin/sh", "-c", keeper, "keeper"].map(OsString::from).to_vec(),
            keeper_environment: Box::new(move || vec![("REPORT".into(), report.clone().into())]),
            errand: Box::new(|_| None),
            environment_of_state: Box::new(|_| None),
            backends: Box::new(Provider(Arc::clone(&self.fake))),
            unsaved_work: Arc::new(NoWork),
            bound_repositories: Arc::new(palisade_engine::NoRepositories),
            tell: Box::new(|_| {}),
        })
    }

    /// An engine whose keeper says nothing and ends.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_with("exit 3")
    }

    /// A file for what a keeper in this very process reports.
    pub(crate) fn report(&self) -> std::path::PathBuf {
        self.state.path().join("report")
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.state.path()
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(self.state.path(), String::new).unwrap()
    }

    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        self.store().find(name).ok()
    }

    /// State and error of a sandbox.
    #[track_caller]
    pub(crate) fn state(&self, name: &str) -> (String, Option<String>) {
        let row = self.row(name).expect("a row");
        (row.state.to_string(), row.error)
    }

    /// Records a sandbox as `create` does before it asks the backend.
    pub(crate) fn begun(&self, name: &str, byte: u8, owner: &ProcessIdentity) -> Row {
        let id = SandboxId::from_random([byte; 15]);
        let dir = HostPath::new(self.state.path().join("sandboxes").join(id.as_str())).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let spec = SandboxSpec {
            dir: Some(SandboxDir::new(dir)),
            id,
            name: Some(SandboxName::new(name).unwrap()),
            method: Method::Bwrap,
            policy: Policy::default(),
            foundation: Foundation::default(),
            paths: Vec::new(),
            identity: HostIdentity { uid: 1, gid: 1 },
            owner: "owner".into(),
            git: Vec::new(),
        };
        self.store().insert(&NewSandbox { spec, uids: None, at: 0 }, owner).unwrap();
        self.row(name).unwrap()
    }

    /// A sandbox that stands, without the calls that made it.
    pub(crate) async fn created(&self, name: &str) -> Row {
        let row = self.engine().create(request(name)).await.unwrap();
        self.fake.calls();
        row
    }
}

pub(crate) fn request(name: &str) -> CreateRequest {
    CreateRequest {
        name: SandboxName::new(name).unwrap(),
        method: Method::Bwrap,
        policy: Policy::default(),
        foundation: Foundation::default(),
    }
}

/// A process that has ended.
pub(crate) fn dead_process() -> ProcessIdentity {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let identity = process::identify(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    identity
}
