//! Opening the store. The common case, a file of the current version, only reads. Making and migrating the file
//! happen under a lock file, so that any number of processes may come first at once.

use crate::error::StoreError;
use crate::record::Row;
use crate::reserve;
use crate::schema;
use palisade_core::{HostPath, SandboxDir};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILE: &str = "state.db";
const LOCK: &str = "state.lock";
/// How long one process waits for the others' transactions, which take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a new store is built under before it gets its name.
const UNFINISHED: &str = "state.new";
/// What the journal of a store that is empty or gone is kept as.
const EMPTY_ASIDE: &str = "state.db.corrupt-empty";
/// SQLite's own files beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// One connection. It is `Send` but not `Sync`: a thread that wants the store opens its own.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    file: PathBuf,
    /// The file that is open, whatever has its name by now.
    identity: Option<(u64, u64)>,
    is_new: bool,
    /// Whether its changes may use the space that is kept for a full disk.
    uses_reserve: Cell<bool>,
}

impl Store {
    /// Sets space aside for a full disk, where it is not yet.
    pub fn fill_reserve(&self) {
        if let Some(directory) = self.file.parent() {
            reserve::fill(directory);
        }
    }

    /// Gives up the space that is kept for a full disk, for an open that found none. Says whether there was any.
    pub fn release_reserve(directory: &Path) -> bool {
        reserve::release(directory)
    }

    /// Lets changes use the space that is kept for a full disk: for a caller that ends or removes something.
    pub fn use_reserve(&self, uses: bool) {
        self.uses_reserve.set(uses);
    }

    /// Does it once more when the disk is full and there is space for that.
    fn with_reserve<T>(&self, mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match attempt() {
            Err(StoreError::Full { .. })
                if self.uses_reserve.get() && self.file.parent().is_some_and(reserve::release) =>
            {
                attempt()
            }
            other => other,
        }
    }

    /// Opens `directory/state.db`, made (directory 0700, file 0600) and migrated when it has to be. A file of no bytes
    /// counts as none: this program never leaves one, so its contents were lost.
    /// `instance` gives the random id of this installation; it is called only when the file is new.
    pub fn open(directory: &Path, instance: impl FnOnce() -> String) -> Result<Self, StoreError> {
        prepare_directory(directory)?;
        let file = directory.join(FILE);
        if let Some(store) = Self::open_current(&file)? {
            return Ok(store);
        }
        let _lock = lock(&directory.join(LOCK))?;
        // Another process may have made it while this one waited.
        if let Some(store) = Self::open_current(&file)? {
            return Ok(store);
        }
        if is_lost(&file) {
            Self::make(directory, &file, instance)?;
            return Ok(Self { is_new: true, ..Self::connect(&file)? });
        }
        let store = Self::connect(&file)?;
        store.enter_wal()?;
        store.migrate(instance)?;
        Ok(store)
    }

    /// As [`Store::open`], for callers that look something up: without a store, none is made.
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, StoreError> {
        if is_lost(&directory.join(FILE)) {
            return Ok(None);
        }
        Self::open(directory, String::new).map(Some)
    }

    /// Builds the file under another name and renames it, so that `state.db` is whole or not there. Called with the lock
    /// held, and no process makes the file without it.
    fn make(directory: &Path, file: &Path, instance: impl FnOnce() -> String) -> Result<(), StoreError> {
        let failed = |source: std::io::Error| StoreError::from_io(file, "create the store", &source);
        set_empty_aside(directory, file).map_err(failed)?;
        let unfinished = directory.join(UNFINISHED);
        for suffix in COMPANIONS.into_iter().chain([""]) {
            remove(&with_suffix(&unfinished, suffix)).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        // Closed before SQLite opens it, for the reason given at [`lock`].
        drop(options.write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?);
        let store = Self::connect(&unfinished)?;
        store.enter_wal()?;
        store.migrate(instance)?;
        // The last connection moves everything into the file and removes the journal.
        let closed = store.connection.close();
        closed.map_err(|(_, source)| StoreError::from_sqlite(file, "create the store", source))?;
        fs::rename(&unfinished, file).map_err(failed)
    }

    /// Whether this open has made the store: nothing was recorded in it before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether the open file still is the store of its directory, and not one that was removed or set aside since.
    pub fn is_current(&self) -> bool {
        self.identity.is_some() && self.identity == identity_of(&self.file)
    }

    /// Moves a damaged store out of the way, with its journal, and says where to; `None` when it is sound after all,
    /// as when another process has just done the same.
    pub fn set_aside(directory: &Path, at: i64) -> Result<Option<PathBuf>, StoreError> {
        let _lock = lock(&directory.join(LOCK))?;
        let file = directory.join(FILE);
        if !file.exists() || Self::connect(&file).and_then(|store| store.check()).is_ok() {
            return Ok(None);
        }
        let aside = free_name(directory, &format!("{FILE}.corrupt-{}", palisade_core::time::stamp(at)));
        for suffix in ["-wal", "-shm", ""] {
            match fs::rename(with_suffix(&file, suffix), with_suffix(&aside, suffix)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::from_io(&file, "set the damaged store aside", &error));
                }
                _ => {}
            }
        }
        Ok(Some(aside))
    }

    /// Reads everything, which finds damage that no ordinary query would come upon.
    fn check(&self) -> Result<(), StoreError> {
        self.known_version()?;
        let verdict: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(self.failed("check the store"))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(StoreError::Corrupt { file: self.file.clone(), why: verdict })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The random id that tells this installation's resources from another's.
    pub fn instance(&self) -> Result<String, StoreError> {
        self.connection
            .query_row("SELECT value FROM meta WHERE key = 'instance'", [], |row| row.get(0))
            .map_err(self.failed("read the instance id"))
    }

    /// The record with the sandbox's directory where it is now.
    pub(crate) fn placed(&self, mut row: Row) -> Row {
        let state = self.file.parent().and_then(|directory| HostPath::new(directory).ok());
        if let (Some(dir), Some(state)) = (&mut row.spec.dir, state) {
            *dir = SandboxDir::of(&state, &row.spec.id);
        }
        row
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// One atomic change. Immediate, because a transaction that turns into a writer later can fail at that
    /// point without the busy time-out being honoured.
    pub(crate) fn change<T>(
        &self,
        what: &'static str,
        mut body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_reserve(|| {
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(self.failed(what))?;
            let result = body(&transaction)?;
            transaction.commit().map_err(self.failed(what))?;
            Ok(result)
        })
    }

    /// A change of one statement.
    pub(crate) fn execute(
        &self,
        what: &'static str,
        statement: &str,
        values: impl rusqlite::Params + Clone,
    ) -> Result<usize, StoreError> {
        self.with_reserve(|| self.connection.execute(statement, values.clone()).map_err(self.failed(what)))
    }

    /// For `map_err`: names what was being done when SQLite failed.
    pub(crate) fn failed(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
        move |source| StoreError::from_sqlite(&self.file, what, source)
    }

    /// The store when the file exists in the current version; `None` when it must be made or migrated.
    fn open_current(file: &Path) -> Result<Option<Self>, StoreError> {
        if is_lost(file) {
            return Ok(None);
        }
        let store = Self::connect(file)?;
        let current = store.known_version()? == schema::VERSION;
        Ok(current.then_some(store))
    }

    fn connect(file: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::from_sqlite(file, "open the store", source);
        // Without CREATE: a file made by SQLite would have the mode of the umask.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        Ok(Self {
            connection,
            file: file.to_owned(),
            identity: identity_of(file),
            is_new: false,
            uses_reserve: Cell::new(false),
        })
    }

    /// The file's version, when it is one we may go on with.
    fn known_version(&self) -> Result<i64, StoreError> {
        let found =
            schema::read_version(&self.connection).map_err(self.failed("read the store's version"))?;
        let file = self.file.clone();
        if found > schema::VERSION {
            Err(StoreError::Newer { file, found, known: schema::VERSION })
        } else if found < 0 {
            Err(StoreError::Corrupt { file, why: format!("its version is {found}") })
        } else if found == 0 && self.has_tables()? {
            Err(StoreError::Corrupt { file, why: "it has tables, and no version".into() })
        } else {
            Ok(found)
        }
    }

    fn has_tables(&self) -> Result<bool, StoreError> {
        let query = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
        self.connection
            .query_row(query, [], |row| row.get(0))
            .map_err(self.failed("read the store's version"))
    }

    /// Switches the file to write-ahead logging, which stays with the file. SQLite does not apply the busy
    /// time-out to this one statement, and somebody may just be reading the version, so the waiting is ours.
    fn enter_wal(&self) -> Result<(), StoreError> {
        self.known_version()?;
        let started = Instant::now();
        loop {
            let switched = self
                .connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
            match switched {
                Ok(_) => return Ok(()),
                Err(error) if is_busy(&error) && started.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(self.failed("prepare the store")(error)),
            }
        }
    }

    fn migrate(&self, instance: impl FnOnce() -> String) -> Result<(), StoreError> {
        let what = "migrate the store";
        let instance = std::cell::LazyCell::new(instance);
        self.change(what, |transaction| {
            // Read again inside the transaction: whoever had the lock before us may have done the work.
            let from = self.known_version()?;
            if from == schema::VERSION {
                return Ok(());
            }
            schema::migrate(transaction, from, || instance.clone()).map_err(self.failed(what))
        })
    }
}

/// The name itself, or with a number when it is taken, by the database or by its journal.
fn free_name(directory: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| directory.join(format!("{name}-{number}")));
    let mut names = std::iter::once(directory.join(name)).chain(numbered);
    let is_free = |path: &PathBuf| !path.exists() && !with_suffix(path, "-wal").exists();
    names.find(is_free).unwrap_or_else(|| directory.join(name))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

fn prepare_directory(directory: &Path) -> Result<(), StoreError> {
    let failed = |source: std::io::Error| StoreError::from_io(directory, "make the state directory", &source);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let mode = fs::metadata(directory).map_err(failed)?.permissions().mode();
    if mode & 0o022 != 0 {
        return Err(StoreError::Exposed { directory: directory.to_owned() });
    }
    Ok(())
}

/// Waits for the lock, which ends with the returned file. It is a file of its own, because closing any second
/// descriptor of the database would drop the locks SQLite holds on it in this process.
fn lock(path: &Path) -> Result<File, StoreError> {
    let failed = |source: std::io::Error| StoreError::from_io(path, "lock the store", &source);
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Whether there is no store, or one without contents, as a power cut or a careless `>` leaves it.
fn is_lost(file: &Path) -> bool {
    match fs::metadata(file) {
        Ok(found) => found.len() == 0,
        // What cannot be looked at may well be a store.
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// The journal of a store that is gone or empty would be taken for the new one's. What may hold something is kept.
fn set_empty_aside(directory: &Path, file: &Path) -> std::io::Result<()> {
    let journal = with_suffix(file, "-wal");
    if fs::metadata(&journal).is_ok_and(|found| found.len() > 0) {
        fs::rename(&journal, with_suffix(&free_name(directory, EMPTY_ASIDE), "-wal"))?;
    }
    for suffix in COMPANIONS.into_iter().chain([""]) {
        remove(&with_suffix(file, suffix))?;
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Tells one file from another that has its name later.
fn identity_of(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::Diagnostic;

    #[test]
    fn a_full_disk_is_told_as_such_and_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), String::new).unwrap();
        let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let limit = format!("PRAGMA max_page_count = {pages}");
        store.connection.query_row(&limit, [], |_| Ok(())).unwrap();

        let error = store.trust_set("/p", &"x".repeat(1 << 20), 0).unwrap_err();
        let file = directory.path().join(FILE);
        assert_eq!(error.code(), "store-full");
        assert_eq!(
            error.to_string(),
            format!("cannot record the trust: no space is left for {}", file.display())
        );
        assert_eq!(store.trust_list().unwrap(), []);
    }

    #[test]
    fn a_store_that_may_not_be_written_is_told_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), String::new).unwrap();
        store.connection.pragma_update(None, "query_only", true).unwrap();
        let error = store.trust_set("/p", "digest", 0).unwrap_err();
        assert_eq!(error.code(), "store-read-only");
    }

    #[test]
    fn a_store_that_stays_locked_is_told_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let holder = Store::open(directory.path(), String::new).unwrap();
        let store = Store::open(directory.path(), String::new).unwrap();
        store.connection.busy_timeout(Duration::ZERO).unwrap();
        let error =
            holder.change("hold the lock", |_| Ok(store.trust_set("/p", "digest", 0).unwrap_err())).unwrap();
        assert_eq!((error.code(), error.exit()), ("store-locked", palisade_core::ExitCode::Timeout));
    }
}
