//! The files that projects keep in git in the place of one that git ignores: `.env.example` for `.env`.

use palisade_core::ProjectPath;

const WORDS: [&str; 4] = ["example", "sample", "template", "dist"];

/// Where an example of a file may be, the likeliest first.
pub fn siblings(path: &ProjectPath) -> Vec<ProjectPath> {
    let (directory, name) = path.split();
    let mut names: Vec<String> = WORDS.iter().map(|word| format!("{name}.{word}")).collect();
    // `config.yaml` has `config.example.yaml`, too; the dot of `.env` begins no ending.
    if let Some((stem, ending)) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        names.extend(WORDS.iter().map(|word| format!("{stem}.{word}.{ending}")));
    }
    let within =
        |name: &String| if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
    names.iter().filter_map(|name| ProjectPath::new(&within(name)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Vec<String> {
        siblings(&ProjectPath::new(path).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn siblings_by_the_name_and_by_its_stem() {
        assert_eq!(of(".env"), [".env.example", ".env.sample", ".env.template", ".env.dist"]);
        assert_eq!(
            of("config/app.yaml"),
            [
                "config/app.yaml.example",
                "config/app.yaml.sample",
                "config/app.yaml.template",
                "config/app.yaml.dist",
                "config/app.example.yaml",
                "config/app.sample.yaml",
                "config/app.template.yaml",
                "config/app.dist.yaml"
            ]
        );
    }
}
