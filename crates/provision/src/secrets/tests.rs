use super::*;
use palisade_testing::one_password_stand_in;
use std::fs;
use std::path::Path;

fn stand_in(directory: &Path, script: &str) -> OnePassword {
    OnePassword { program: one_password_stand_in(directory, script), ..OnePassword::default() }
}

fn declared(name: &str, reference: &str) -> DeclaredSecret {
    DeclaredSecret {
        name: VariableName::new(name).unwrap(),
        reference: SecretReference::parse(reference).unwrap(),
        services: None,
    }
}

fn environment(name: &VariableName) -> Option<OsString> {
    match name.as_str() {
        "SET" => Some("from the host".into()),
        "EMPTY" => Some(OsString::new()),
        _ => None,
    }
}

type Told = Result<Vec<(String, String)>, Vec<(String, String)>>;

async fn told(one_password: &OnePassword, references: &[(&str, &str)]) -> Told {
    let secrets = references.iter().map(|(name, reference)| declared(name, reference)).collect();
    match resolve(secrets, environment, one_password).await {
        Ok(resolved) => Ok(resolved
            .into_iter()
            .map(|it| (it.declared.name.to_string(), it.value.expose().to_owned()))
            .collect()),
        Err(failures) => {
            Err(failures.into_iter().map(|it| (it.name.to_string(), it.cause.to_string())).collect())
        }
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn each_kind_of_reference_gives_its_value_byte_for_byte() {
    let home = tempfile::tempdir().unwrap();
    let op = stand_in(home.path(), r#"printf '  %s\n\n' "$3""#);
    let references = [
        ("A", "op://v/i/one"),
        ("B", "$SET"),
        ("C", "$EMPTY"),
        ("D", "local dev"),
        ("E", "op://v/i/two"),
        ("F", "$$5"),
    ];
    assert_eq!(
        told(&op, &references).await,
        Ok(pairs(&[
            ("A", "  op://v/i/one\n\n"),
            ("B", "from the host"),
            ("C", ""),
            ("D", "local dev"),
            ("E", "  op://v/i/two\n\n"),
            ("F", "$5"),
        ]))
    );
}

#[tokio::test]
async fn all_failures_are_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    let script = r#"case $3 in *good*) printf ok ;; *odd*) echo s3cr3t >&2; exit 3 ;;
        *) echo "[ERROR] \"x\" isn't an item in the \"v\" vault" >&2; exit 1 ;; esac"#;
    let op = stand_in(home.path(), script);
    let references =
        [("A", "op://v/good/f"), ("B", "op://v/x/f"), ("C", "$MISSING"), ("D", "ok"), ("E", "op://v/odd/f")];
    assert_eq!(
        told(&op, &references).await,
        Err(pairs(&[
            ("B", "Secret not found: op://v/x/f. Check the reference in infra.toml."),
            (
                "C",
                "Environment variable MISSING not set. Export it or change to a different resolution type in infra.toml."
            ),
            ("E", "1Password CLI (op) failed with code 3. See why with: op read 'op://v/odd/f'"),
        ]))
    );
}

#[tokio::test]
async fn without_op_every_reference_to_it_says_so() {
    let op = OnePassword { program: "/nowhere/op".into(), ..OnePassword::default() };
    let told = told(&op, &[("A", "op://v/a/f"), ("B", "op://v/b/f")]).await;
    let message = "1Password CLI (op) not found. Install it or use $VAR references instead.";
    assert_eq!(told, Err(pairs(&[("A", message), ("B", message)])));
}

#[tokio::test]
async fn not_signed_in_is_found_out_once() {
    let home = tempfile::tempdir().unwrap();
    let calls = home.path().join("calls");
    let script =
        format!("echo x >> '{}'; echo 'You are not currently signed in.' >&2; exit 1", calls.display());
    let op = stand_in(home.path(), &script);
    let told = told(&op, &[("A", "op://v/a/f"), ("B", "op://v/b/f"), ("C", "op://v/c/f")]).await;
    let message = "1Password not authenticated. Run: eval $(op signin)";
    assert_eq!(told, Err(pairs(&[("A", message), ("B", message), ("C", message)])));
    assert_eq!(fs::read_to_string(calls).unwrap(), "x\n");
}

#[tokio::test]
async fn one_that_hangs_is_ended_with_what_it_started() {
    let home = tempfile::tempdir().unwrap();
    let pid = home.path().join("pid");
    // The shell's child would outlive it, and hold the pipe.
    let op = stand_in(home.path(), &format!("sleep 1000 & echo $! > '{}'; wait", pid.display()));
    let op = OnePassword { first_patience: Duration::from_secs(5), ..op };
    let told = told(&op, &[("A", "op://v/a/f")]).await;
    assert_eq!(
        told,
        Err(pairs(&[("A", "1Password did not answer within 5 seconds. Unlock it, then try again.")]))
    );
    let sleeper: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let is_gone = || {
        let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    while !is_gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn no_more_than_a_few_are_asked_at_once_and_the_first_alone() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let script = format!("echo + >> '{0}'; sleep 0.2; echo - >> '{0}'; printf v", log.display());
    let op = stand_in(home.path(), &script);
    let references: Vec<(String, String)> =
        (0..8).map(|index| (format!("S{index}"), format!("op://v/i/{index}"))).collect();
    let borrowed: Vec<(&str, &str)> = references.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(told(&op, &borrowed).await.unwrap().len(), 8);
    let (mut running, mut most) = (0, 0);
    let log = fs::read_to_string(log).unwrap();
    assert!(log.starts_with("+\n-\n"), "{log}");
    for line in log.lines() {
        running += if line == "+" { 1 } else { -1 };
        most = most.max(running);
    }
    assert!((1..=3).contains(&most), "{most} at once");
}

#[tokio::test]
async fn what_an_env_file_cannot_hold_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let op = stand_in(
        home.path(),
        r"case $3 in *nul*) printf 'a\0b' ;; *bytes*) printf '\377' ;; *) head -c 200000 /dev/zero | tr '\0' x ;; esac",
    );
    assert_eq!(
        told(&op, &[("A", "op://v/nul"), ("B", "op://v/bytes"), ("C", "op://v/long")]).await,
        Err(pairs(&[
            ("A", "The value holds a NUL, which no variable can."),
            ("B", "The value is not UTF-8, which an env file cannot hold."),
            ("C", "The value is longer than 122880 bytes."),
        ]))
    );
}

#[test]
fn nothing_that_is_debugged_shows_a_value() {
    let secret = ResolvedSecret { declared: declared("A", "literal-value"), value: Secret::new("s3cr3t") };
    let shown = format!("{secret:?}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("literal-value"), "{shown}");
}

#[test]
fn a_reference_stays_one_word_of_the_command_that_is_to_be_pasted() {
    let cause = SecretFailureCause::Failed { code: None, address: "op://v/i'; id #".into() };
    let told = r"1Password CLI (op) failed. See why with: op read 'op://v/i'\''; id #'";
    assert_eq!(cause.to_string(), told);
}
