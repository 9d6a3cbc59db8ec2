package web

import (
	"net/http"
)

// Reload reads the configuration again and puts it in force if all of it is
// valid; otherwise the old one stays. Probes that run stay on their old module.
func (h *Handler) Reload() error {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	if err := h.config.Reload(); err != nil {
		h.self.Reloaded(false, h.now())
		LogConfigError(h.logger, "the configuration is not reloaded; the old one stays in force", err)
		return err
	}
	h.loaded()
	h.logger.Info("configuration reloaded", "modules", len(h.config.Current().Modules))
	return nil
}

// loaded makes the rest of the process follow the configuration in force.
func (h *Handler) loaded() {
	cfg := h.config.Current()
	hashes := map[string]bool{}
	for _, m := range cfg.Modules {
		hashes[m.Hash()] = true
	}
	h.admission.setLimits(cfg.Limits)
	h.loads.keep(func(hash string) bool { return hashes[hash] })
	h.self.SetModules(cfg.ModuleNames())
	h.self.Reloaded(true, h.now())
}

func (h *Handler) reload(w http.ResponseWriter, _ *http.Request) {
	if err := h.Reload(); err != nil {
		http.Error(w, "the old configuration stays in force:\n"+err.Error(), http.StatusInternalServerError)
		return
	}
	plainText(w, []byte("configuration reloaded\n"))
}
