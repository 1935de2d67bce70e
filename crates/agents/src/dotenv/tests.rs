use super::*;

fn around(name: &str) -> Option<String> {
    (name == "HOME").then(|| "/home/agent".to_owned())
}

fn read(text: &str) -> Vec<(String, String)> {
    let said = parse(text, &around);
    assert_eq!(said.left_out, [], "{text}");
    said.variables.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[track_caller]
fn one(text: &str) -> String {
    let [(_, value)] = read(text).try_into().unwrap();
    value
}

#[test]
fn lines_comments_and_exports_are_told_apart() {
    let text = "\u{feff}# first\n\nA=1\n  export B = two words  # said\r\n\tC=\nD=#none\nexport=x\nE=a#b\n";
    let pairs = [("A", "1"), ("B", "two words"), ("C", ""), ("D", ""), ("export", "x"), ("E", "a#b")];
    assert_eq!(read(text), pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn quotes_keep_what_is_in_them() {
    for (text, value) in [
        (r"A='a $HOME \n #b'", r"a $HOME \n #b"),
        (r#"A="a\tb\n\"c\" \\ \$HOME \x" # said"#, "a\tb\n\"c\" \\ $HOME \\x"),
        ("A='one\ntwo\r\nthree'", "one\ntwo\r\nthree"),
        ("A=\"one\ntwo\"\r\n", "one\ntwo"),
        (r"A=C:\new\table", r"C:\new\table"),
        ("A=it's", "it's"),
        ("A=\"\"", ""),
        ("A='é ✓'", "é ✓"),
    ] {
        assert_eq!(one(text), value, "{text}");
    }
}

#[test]
fn variables_stand_for_what_was_said_before_and_commands_for_themselves() {
    for (text, value) in [
        ("A=x$HOME", "x/home/agent"),
        ("A=\"${HOME}/b\"", "/home/agent/b"),
        ("A=$NONE.", "."),
        ("A=${NONE:-other}", "other"),
        ("A=${HOME:-other}", "/home/agent"),
        ("A=$(id)`id`$5$", "$(id)`id`$5$"),
        ("A=${HOME", "${HOME"),
        ("A=${a b}", "${a b}"),
    ] {
        assert_eq!(one(text), value, "{text}");
    }
    let both = read("A=1\nB=${A}2\nA=3\nC=$A$B");
    assert_eq!(both, [("B", "12"), ("A", "3"), ("C", "312")].map(|(n, v)| (n.to_owned(), v.to_owned())));
}

#[test]
fn a_line_that_says_nothing_is_told_by_its_number_and_the_others_count() {
    let text = "A=1\nnot a line\nB='open\nC=2\n1D=x\nE=\"x\" y\nF\nG='two\nlines' z\nH=a\0b\nI=3\n";
    let said = parse(text, &around);
    let names: Vec<&str> = said.variables.iter().map(|(name, _)| name.as_str()).collect();
    let told: Vec<(usize, &str)> = said.left_out.iter().map(|left| (left.line, left.reason)).collect();
    assert_eq!(names, ["A", "C", "I"]);
    assert_eq!(
        told,
        [
            (2, "there is no '=' behind the name"),
            (3, "there is more behind the closing quote"),
            (5, "it does not begin with the name of a variable"),
            (6, "there is more behind the closing quote"),
            (7, "there is no '=' behind the name"),
            (8, "there is more behind the closing quote"),
            (9, "there is no '=' behind the name"),
            (10, "the value holds a NUL, which no variable can"),
        ]
    );
}

#[test]
fn a_quote_that_is_never_closed_costs_its_line_only() {
    let said = parse("A=\"open\nB=2\n", &around);
    assert_eq!(said.left_out, [LeftOut { line: 1, reason: NOT_CLOSED }]);
    assert_eq!(said.variables.len(), 1);
}

#[test]
fn a_value_that_no_process_could_be_given_is_left_out() {
    let said = parse(&format!("A={}\nB={}\n", "x".repeat(LONGEST), "x".repeat(LONGEST + 1)), &around);
    assert_eq!((said.variables.len(), said.left_out[0].line), (1, 2));
}

#[test]
fn a_few_lines_cannot_ask_for_more_than_there_is() {
    let doubling: String = (1..100).map(|n| format!("A{n}=${{A{}}}$A{}\n", n - 1, n - 1)).collect();
    let said = parse(&format!("A0=0123456789abcdef\n{doubling}"), &around);
    let bytes: usize = said.variables.iter().map(|(_, value)| value.len()).sum();
    assert!(bytes <= MOST && !said.left_out.is_empty(), "{bytes} bytes in {}", said.variables.len());
    assert_eq!(parse(&"${".repeat(500_000), &around).variables, []);
    assert_eq!(one(&format!("A={}", "${".repeat(10_000))).len(), 20_000);
}
