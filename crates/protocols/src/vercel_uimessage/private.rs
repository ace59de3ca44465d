//! What the record has no word for, and how a part or message was spelled. All of it goes back only to its owner.
//!
//! Numbers of the resources of one subject (an item, or a part of one): 0 provider metadata, 1 members without a word,
//! 2 spelling, 3 what belongs to the message that the item begins, 4 the message's metadata, 5 its members without a word.

use crate::context::PrivateState;
use crate::feature::Feature;
use crate::keeper::{Keep, Keeper};
use crate::object::Object;
use serde::{Deserialize, Serialize};
use throughline_format::resource::ResourceType;
use throughline_format::{Json, UnifiedId, UnifiedItem, UnifiedProviderDataRef};

/// Schema of raw members.
pub(super) const UNMAPPED: &str = "vercel-uimessage/unmapped@1";
/// Schema of spellings.
pub(super) const FORM: &str = "vercel-uimessage/form@1";
/// Schema of provider metadata: an object of the members that a part had.
pub(super) const PROVIDER_METADATA: &str = "vercel-uimessage/provider-metadata@1";
/// Schema of what belongs to a message as a whole.
pub(super) const MESSAGE: &str = "vercel-uimessage/message@1";
/// Schema of an application's message metadata, as written.
pub(super) const METADATA: &str = "vercel-uimessage/metadata@1";

/// Number of the resource with the members without a word of the message that an item begins.
pub(super) const MESSAGE_MEMBERS: u64 = 5;
/// How the ID of that resource ends.
const MESSAGE_MARK: &str = ".r5";

/// How something was spelled where the wire has two ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    /// The part is a `dynamic-tool`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dynamic: bool,
    /// Members as written that an encoder would write otherwise, or not at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<(String, Json)>,
    /// Members that an encoder writes and that were not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

impl Form {
    /// Remembers a member as it was written.
    pub(super) fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.members.push((key.to_owned(), crate::raw::json(value)));
    }

    /// A member as it was written, where it is remembered.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.members.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Remembers a member that an encoder writes as `usual`.
    pub(super) fn spelled(&mut self, key: &str, written: Option<&str>, usual: Option<&str>) {
        match written {
            Some(word) if usual != Some(word) => self.member(key, word),
            None if usual.is_some() => self.absent.push(key.to_owned()),
            _ => {}
        }
    }

    /// The spelling of the body as a whole.
    pub(super) fn of_root(private: &dyn PrivateState) -> Self {
        private
            .root_payload(FORM)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Writes the object as it was.
    pub(super) fn apply(&self, object: &mut Object) {
        for key in &self.absent {
            object.remove(key);
        }
        for (key, value) in &self.members {
            object.set(key, value.clone());
        }
    }
}

/// What belongs to the message that an item begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct MessageForm {
    /// Its ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How many items it became.
    pub items: usize,
    /// The message is a part of the assistant's message around it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steering: bool,
}

impl Keeper {
    /// Keeps provider metadata: it may hold anything, signatures and handles included.
    pub(super) fn metadata(
        &mut self,
        subject: &UnifiedId,
        path: &str,
        members: Vec<(&str, Option<Json>)>,
    ) -> Option<UnifiedProviderDataRef> {
        let (mut object, mut paths) = (Object::default(), Vec::new());
        for (key, value) in members {
            if let Some(value) = value {
                paths.push(format!("{path}/{key}"));
                object.set(key, value);
            }
        }
        if object.is_empty() {
            return None;
        }
        let payload = object.to_json().as_str().as_bytes().to_vec();
        Some(self.payload(
            Keep {
                schema: PROVIDER_METADATA,
                resource_type: ResourceType::Reasoning,
                subject: Some(subject),
                resource_id: subject.resource(0),
                paths,
            },
            payload,
        ))
    }

    /// Keeps a spelling that is not the usual one.
    pub(super) fn form(&mut self, subject: &UnifiedId, path: &str, form: &Form) -> Option<UnifiedProviderDataRef> {
        if *form == Form::default() {
            return None;
        }
        let paths = form.members.iter().map(|(key, _)| format!("{path}/{key}")).collect();
        let payload = serde_json::to_vec(form).unwrap_or_default();
        Some(self.payload(
            Keep {
                schema: FORM,
                resource_type: other(),
                subject: Some(subject),
                resource_id: subject.resource(2),
                paths,
            },
            payload,
        ))
    }

    /// Keeps how the body as a whole was spelled.
    pub(super) fn root_form(&mut self, resource_id: UnifiedId, form: &Form) {
        let paths = form.members.iter().map(|(key, _)| format!("/{key}")).collect();
        let payload = serde_json::to_vec(form).unwrap_or_default();
        self.payload(
            Keep {
                schema: FORM,
                resource_type: other(),
                subject: None,
                resource_id,
                paths,
            },
            payload,
        );
    }

    /// Keeps what belongs to the message that an item begins.
    pub(super) fn message(
        &mut self,
        item: &UnifiedId,
        path: &str,
        form: &MessageForm,
        metadata: Option<Json>,
    ) -> Vec<UnifiedProviderDataRef> {
        let payload = serde_json::to_vec(form).unwrap_or_default();
        let mut references = vec![self.payload(
            Keep {
                schema: MESSAGE,
                resource_type: other(),
                subject: Some(item),
                resource_id: item.resource(3),
                paths: Vec::new(),
            },
            payload,
        )];
        if let Some(metadata) = metadata {
            let path = format!("{path}/metadata");
            self.loss.info(
                Feature::WireUnmapped,
                path.clone(),
                "metadata of an application; kept for the same protocol",
            );
            let payload = metadata.as_str().as_bytes().to_vec();
            references.push(self.payload(
                Keep {
                    schema: METADATA,
                    resource_type: other(),
                    subject: Some(item),
                    resource_id: item.resource(4),
                    paths: vec![path],
                },
                payload,
            ));
        }
        references
    }
}

/// Kind of resources that are no state of a provider.
pub(super) fn other() -> ResourceType {
    ResourceType::Other("unmapped".into())
}

/// What is known of a subject besides its record, as far as the target may see it.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Its spelling.
    pub form: Form,
    /// Provider metadata, as an object of the members that the part had.
    pub metadata: Option<Object>,
    /// A part that was kept whole.
    pub raw: Option<Json>,
    entries: Vec<throughline_format::resource::UnmappedEntry>,
}

impl Kept {
    /// Everything that references lead to.
    pub(super) fn of<'a>(private: &dyn PrivateState, references: impl IntoIterator<Item = &'a UnifiedProviderDataRef>) -> Self {
        let references: Vec<_> = references
            .into_iter()
            .filter(|reference| !reference.resource_id.as_str().ends_with(MESSAGE_MARK))
            .collect();
        let find = |schema| crate::keeper::payload_in(private, references.iter().copied(), schema);
        let mut entries = crate::keeper::unmapped_in(find(UNMAPPED));
        let raw = entries
            .iter()
            .position(|entry| entry.pointer.is_empty())
            .map(|at| entries.swap_remove(at).value);
        Self {
            form: find(FORM).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default(),
            metadata: find(PROVIDER_METADATA)
                .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
                .and_then(|text| Json::from_text(text).ok())
                .and_then(|json| Object::of(&json)),
            raw,
            entries,
        }
    }

    /// Members without a word of the message that an item begins.
    pub(super) fn of_message(private: &dyn PrivateState, item: &UnifiedItem) -> Self {
        let id = item.id.resource(MESSAGE_MEMBERS);
        let references = item.provider_data.iter().flatten().filter(|reference| reference.resource_id == id);
        Self {
            entries: crate::keeper::unmapped_in(crate::keeper::payload_in(private, references, UNMAPPED)),
            ..Self::default()
        }
    }

    /// Puts everything back.
    pub(super) fn apply(&self, object: &mut Object) {
        for key in ["providerMetadata", "callProviderMetadata", "resultProviderMetadata"] {
            if let Some(value) = self.metadata.as_ref().and_then(|m| m.get(key)) {
                object.set(key, value.clone());
            }
        }
        self.form.apply(object);
        for entry in &self.entries {
            object.put(&entry.pointer, entry.value.clone());
        }
    }
}

/// The message that an item begins, as far as the target may see it.
pub(super) fn message_of<'a>(
    private: &dyn PrivateState,
    references: impl IntoIterator<Item = &'a UnifiedProviderDataRef>,
) -> Option<(MessageForm, Option<Json>)> {
    let references: Vec<_> = references.into_iter().collect();
    let form = crate::keeper::payload_in(private, references.iter().copied(), MESSAGE)?;
    let metadata = crate::keeper::payload_in(private, references.iter().copied(), METADATA)
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        .and_then(|text| Json::from_text(text).ok());
    Some((serde_json::from_slice(&form).ok()?, metadata))
}
