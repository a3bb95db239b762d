//! What a file is made of, for people: read of the file alone, where no manifest says which file it ought to be.

use super::file::{Sstable, SstableIdentity};
use super::footer::{FOOTER_BYTES, Footer, Refusal, VERSION};
use super::frame::seed_of;
use super::{FileDigest, SstableId, file_name};
use crate::error::{Error, Result};
use crate::io::{Disk, RelPath};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it is, as in FORMAT.md.
    pub name: &'static str,
    /// Where it begins.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// A data block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Where its frame begins.
    pub offset: u64,
    /// The length of the frame in bytes.
    pub bytes: u64,
    /// It begins inside a partition.
    pub continues: bool,
}

/// What the footer of the file `id` in `dir` says of it. The file's name must be its id: checksums depend on it.
pub async fn identify(disk: &Disk, dir: &RelPath, id: SstableId) -> Result<SstableIdentity> {
    let file = disk.open(&dir.join(&file_name(id))).await?;
    let name = file.path().clone();
    let file_bytes = file.len();
    let Some(offset) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
        return Err(Error::corrupt(name.as_str(), 0, "it is shorter than a footer"));
    };
    let bytes = file.read_exact_at(offset, FOOTER_BYTES).await?;
    file.close().await?;
    let footer = Footer::decode(&bytes, seed_of(id), offset);
    let (footer, footer_checksum) = footer.map_err(|refusal| match refusal {
        Refusal::Damaged(what) => Error::corrupt(name.as_str(), offset, what),
        Refusal::Newer(found) => Error::Newer { file: name.as_str().into(), found, known: VERSION },
        Refusal::Needs(bits) => Error::UnknownFeature { file: name.as_str().into(), bits },
    })?;
    let proof = FileDigest { file_bytes, footer_checksum };
    Ok(SstableIdentity { id: footer.id, table: footer.table, proof })
}

impl Sstable {
    /// The parts of the file, in order.
    pub fn regions(&self) -> Vec<Region> {
        let footer = self.footer();
        let mut regions = vec![
            Region { name: "data", offset: 0, bytes: footer.data_bytes },
            Region { name: "row index", offset: footer.index_offset, bytes: footer.index_bytes },
        ];
        for (name, section) in [
            ("directory", footer.directory),
            ("filter", footer.filter),
            ("wide table", footer.wide),
            ("statistics", footer.statistics),
        ] {
            regions.push(Region { name, offset: section.offset, bytes: section.bytes.into() });
        }
        let offset = self.known().proof.file_bytes - FOOTER_BYTES as u64;
        regions.push(Region { name: "footer", offset, bytes: FOOTER_BYTES as u64 });
        regions
    }

    /// The data blocks, in order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockPlace> {
        (0..self.directory.blocks()).map(|number| {
            let (offset, bytes) = self.directory.frame(number);
            let continues = self.directory.continues(number);
            BlockPlace { offset, bytes: bytes as u64, continues }
        })
    }
}
