//! What a transcript is read from: files that the caller has read.

/// A file as it lies on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, relative to what was named; the last component is its name. Separators are `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl SourceFile {
    /// A file.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
        }
    }

    /// The name without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The name without folders and without what follows its last dot.
    pub fn stem(&self) -> &str {
        let name = self.name();
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }
}

/// One thing to read: a file, or the files of a folder that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The files.
    pub files: Vec<SourceFile>,
}

impl Source {
    /// A source of one file.
    pub fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            files: vec![SourceFile::new(path, bytes)],
        }
    }

    /// The first file.
    pub fn first(&self) -> Option<&SourceFile> {
        self.files.first()
    }
}
