// The papers by the names that claims and figures go under.

/** @type {Record<string, string>} */
export const PAPERS = {
  fw: "Attention’s forward pass and Frank–Wolfe",
  hardmax: "Clustering in hardmax transformers",
  localmax: "Localmax dynamics",
  emergence: "The emergence of clusters",
  sphere: "A mathematical perspective on transformers",
  neuralode: "Neural ODE control",
};
