//! Results of runs from the wire: the SDK's, or a run as the Cloud API gives it when it is asked for.

use super::private::{AGENT, FORM, RUN};
use super::run::Run;
use super::wire;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::keeper::Keep;
use throughline_format::UnifiedError;

/// Reads a result.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    // The answer to a new agent or run holds the run.
    let created = throughline_format::json::decode_slice::<wire::Created>(body).ok();
    let result: wire::Run = match created {
        Some(created) => created.run,
        None => throughline_format::json::decode_slice(body)?,
    };
    let mut run = Run::new(context.clone());
    if let Some(model) = &result.model {
        run.model(model);
    }
    run.begin();
    run.handle(AGENT, result.agent_id.as_deref(), "/agentId");
    run.handle(RUN, result.id.as_deref(), "/id");
    if let Some(id) = &result.request_id {
        run.provider_request(id);
    }
    if let Some(text) = &result.result {
        run.text(text, false);
    }
    if let Some(raw) = &result.usage {
        run.run_usage(raw);
    }
    let mut forms = vec![format!("status:{}", result.status)];
    let is_word = result.model.as_ref().is_some_and(|model| model.decode::<String>().is_ok());
    if is_word {
        forms.push("model-word".to_owned());
    } else if result.model.is_none() {
        forms.push("no-model".to_owned());
    }
    for (form, is_there) in [("no-result", result.result.is_some()), ("no-error", result.error.is_some())] {
        if !is_there {
            forms.push(form.to_owned());
        }
    }
    let id = context.operation_id.resource(15);
    let payload = serde_json::to_vec(&forms).unwrap_or_default();
    run.keeper.payload(
        Keep {
            schema: FORM,
            resource_type: super::private::other(),
            subject: None,
            resource_id: id,
            paths: vec!["/status".to_owned()],
        },
        payload,
    );
    let message = result.error.as_ref().and_then(super::run::as_message);
    if let Some(raw) = result.error {
        run.keep("/error", raw);
    }
    run.extra(result.extra);
    run.status(&result.status, message);
    if run.ended.is_none() {
        run.unfinished(&result.status);
    } else {
        run.end();
    }
    Ok(run.take())
}
