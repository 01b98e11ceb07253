/** Your name: the sender of what you post and the one who deletes. Asked once per workspace, changed at will. */

const NAME_CHARS_MAX = 200;

/** Asks for the name; the answer is the name, or null if the person backed out. */
export async function askName(app) {
  const name = await app.dialog.ask({
    title: "Your name",
    action: "Save",
    fields: [
      {
        name: "name",
        label: "Name",
        value: app.prefs.get("name") ?? "",
        hint: "Agents and people see it beside what you post from this browser.",
        maxLength: NAME_CHARS_MAX,
        required: true,
      },
    ],
    save: async (values) => values.name,
  });
  if (name === undefined) return null;
  app.prefs.set("name", name);
  return name;
}

/** The name, asked for if it is not known yet. */
export async function needName(app) {
  return app.prefs.get("name") ?? (await askName(app));
}
